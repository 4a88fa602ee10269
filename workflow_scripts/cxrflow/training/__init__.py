"""The engine: loop, optimiser, schedule, state. It knows no model."""
