"""One module a race; each has ``races()``, which makes the inputs and gives the races on them."""
