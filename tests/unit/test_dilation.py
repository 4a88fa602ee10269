"""A finer grid from the same weights: stride turned into dilation (BioViL section 2.2)."""

import pytest
import torch
from torch import nn

from cxrflow.encoders.dilation import refine_grid
from cxrflow.encoders.resnet import ResNet
from cxrflow.encoders.settings import ResNetSettings

TRAINED = ResNetSettings(layers=(1, 2, 2, 3), width=8, channels=1)


def trunk(settings: ResNetSettings) -> ResNet:
    """Weights and batch statistics that are not at their start."""
    torch.manual_seed(0)
    made = ResNet(settings).eval()
    for module in made.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.3, 0.3)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    return made


@pytest.mark.parametrize("block", ["basic", "bottleneck"])
@pytest.mark.parametrize(
    ("trained", "refined", "factor"),
    [
        ((False, False, False), (False, False, True), 2),
        ((False, False, False), (False, True, False), 2),
        ((False, False, False), (False, True, True), 4),
        ((False, False, False), (True, True, True), 8),
        ((False, True, False), (False, False, True), 2),
        ((False, True, True), (False, True, True), 1),
        ((False, True, True), (True, False, False), 2),
        ((False, False, False), (False, False, False), 1),
    ],
)
def test_the_old_cells_keep_their_features(block, trained, refined, factor):
    """Every 2nd (4th, 8th) cell of the finer grid is a cell of the grid of the training."""
    settings = TRAINED.model_copy(update={"block": block, "dilate": trained})
    coarse, fine = trunk(settings), ResNet(settings).eval()
    refine_grid(fine, refined)
    fine.load_state_dict(coarse.state_dict())
    images = torch.rand(2, 1, 96, 64)
    with torch.no_grad():
        wanted, found = coarse(images), fine(images)
    rows, columns = wanted.shape[2:]
    assert found.shape[2:] == (rows * factor, columns * factor)
    torch.testing.assert_close(found[:, :, ::factor, ::factor], wanted, rtol=1e-4, atol=1e-5)
    if factor > 1:  # the new ones are no copies
        assert not torch.allclose(found[:, :, 1::factor, ::factor], wanted, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("stages", [(False, False, True), (False, True, True)])
def test_a_refined_resnet_50_is_one_that_was_made_with_dilation(stages):
    refined = trunk(TRAINED)
    made = ResNet(TRAINED.model_copy(update={"dilate": stages})).eval()
    made.load_state_dict(refined.state_dict())
    refine_grid(refined, stages)
    images = torch.rand(2, 1, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(refined(images), made(images))
