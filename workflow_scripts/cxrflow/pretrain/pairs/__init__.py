"""Programs of images and their texts: tables, views, and the trainings of both encoders."""
