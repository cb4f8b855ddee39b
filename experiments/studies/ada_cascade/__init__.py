"""One shared prefix on an RTX 6000 Ada, with and without cascade attention."""
