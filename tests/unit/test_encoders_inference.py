"""Folded batch normalisation: the same embeddings, from a copy."""

import pytest
import torch
from torch import nn

from cxrflow.encoders.image_encoder import Frames, ImageEncoder
from cxrflow.encoders.inference import folded
from cxrflow.encoders.settings import ResNetSettings


@pytest.mark.parametrize("block", ["basic", "bottleneck"])
@pytest.mark.parametrize("stem_pool", [True, False])
def test_the_folded_encoder_gives_the_same(block, stem_pool):
    torch.manual_seed(0)
    settings = ResNetSettings(
        block=block, layers=(1, 2, 1, 1), width=8, projection=16, stem_pool=stem_pool
    )
    image = ImageEncoder(settings).eval()
    for module in image.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.5, 0.5)
            nn.init.uniform_(module.running_var, 0.3, 2.0)
            nn.init.uniform_(module.weight, 0.3, 2.0)
            nn.init.uniform_(module.bias, -0.5, 0.5)
    before = {name: value.clone() for name, value in image.state_dict().items()}
    made = folded(image)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in made.modules())
    frames = Frames(torch.rand(2, 1, 64, 64))
    with torch.inference_mode():
        for ours, wanted in zip(made(frames), image(frames), strict=True):
            torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-5)
    assert all(torch.equal(value, before[name]) for name, value in image.state_dict().items())


def test_a_normalisation_without_a_convolution_is_refused():
    image = ImageEncoder(ResNetSettings(layers=(1, 1, 1, 1), width=8, projection=16))
    image.projector.model = nn.Sequential(nn.ReLU(), nn.BatchNorm2d(256))
    with pytest.raises(ValueError, match="'1' follows no convolution"):
        folded(image)
