"""What a step costs: devices, model shapes, work and cost models."""
