"""LMETRIC and the routers it is compared with: what is claimed beside what comes out."""
