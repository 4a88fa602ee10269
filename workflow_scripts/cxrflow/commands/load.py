"""Load a model and say what it is, or in one line what is wrong with it.

    cxrflow load results/models/biovil/biovil/seed0

Takes what ``cxrflow.load`` takes in Python: a model folder of a run, or published weights. Prints
its encoders and their sizes, the pixels it expects and the data it was trained on. The exit code is
2 when anything is missing or damaged. An image and a text are encoded as a test, so a model that
passes can be used.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cxr_files.program import parser, run

if TYPE_CHECKING:
    from cxrflow.models.model import Model


def main(argv: Sequence[str] | None = None) -> None:
    """Load the model that the options name and print its facts."""
    arguments = parser(__doc__, settings=False)
    arguments.add_argument("model", type=Path, help="model folder, or published weights")
    arguments.add_argument("--image", type=Path, help="published image weights, if elsewhere")
    options = arguments.parse_args(argv)

    import cxrflow

    model = cxrflow.load(options.model, image=options.image)
    print(model)
    for key, value in facts(model):
        print(f"  {key:12} {value}")


def facts(model: "Model") -> Iterator[tuple[str, str]]:
    """Yield names and values that describe a loaded model."""
    import torch

    from cxrflow.encoders.released.published import projection_is_new
    from cxrflow.images.geometry import Geometry
    from cxrflow.images.inference_view import seen_geometry
    from cxrflow.models.run_record import learnt, relates_sentences

    halves = {
        "text": model.text_encoder,
        "image": model.image_encoder,
        "decoder": model.decoder,
    }
    for name, half in halves.items():
        if half is not None:
            yield name, f"{sum(parameter.numel() for parameter in half.parameters()):,} parameters"
    if model.image_encoder is not None:
        stored = Geometry.parse(model.geometry)
        size = (seen_geometry(model.run, stored) or stored).size
        # A real forward pass: weights that load but do not fit fail here.
        features = model.image_features(torch.zeros(1, 1, size, size))
        yield "pixels", f"{model.geometry}; {features.shape[1]} features an image"
    if relates_sentences(model.run):
        yield "two texts", ", ".join(model.run["data"]["classes"])
    elif model.text_encoder is not None and not projection_is_new(model.run):
        width = model.encode_text(["No pleural effusion."]).shape[1]
        yield "joint space", f"{width} numbers a text"
    data = model.run.get("data") or {}
    if data.get("train_samples"):
        origin = " (synthetic)" if data.get("synthetic") else ""
        yield "trained on", f"{data.get('name')}{origin}, {data['train_samples']} samples"
    if model.limits:
        yield "warning", model.limits
    if learnt(model.run) is False:
        yield "warning", "it has not learnt: its pairs are told apart no better than untrained"


if __name__ == "__main__":
    run(main)
