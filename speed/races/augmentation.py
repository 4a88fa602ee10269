"""Training views: the elastic warp against torchvision's algorithm, the SimCLR set against steps.

torchvision's algorithm is written out here: noise, a Gaussian as one two-dimensional depthwise
convolution with reflected borders, grid_sample. The steps are a plain pipeline of torch, one image
and one transform after another.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from cxrflow.compute.keyed_random import KeyedRandom
from cxrflow.images.augment import Augmentation, Draws, centre
from cxrflow.images.settings import AugmentationSettings
from cxrflow.papers import load_paper
from speed.race import Race

SIZE, NEAR = 512, 1e-3
#: What the elastic noise is drawn from in `images.augment`, so that the peers get the same.
ELASTIC_STREAM, NOISE_STREAM = 1, 2
#: (sigma, alpha): the two ways in which BioViL's Table E.1 can be read.
ELASTIC_READINGS = {"sigma_4_alpha_34": (4.0, 34.0), "sigma_34_alpha_4": (34.0, 4.0)}
#: Its column of image-only pretraining.
IMAGE_ONLY = AugmentationSettings(**load_paper("biovil").models["simclr"].settings["augmentation"])


def invent_images(count: int) -> Tensor:
    """Smooth images with structure at all places: uint8 [count, SIZE, SIZE]."""
    coarse = torch.rand(count, 1, 24, 24, generator=torch.Generator().manual_seed(0))
    smooth = F.interpolate(coarse, (SIZE, SIZE), mode="bicubic", align_corners=False)
    return smooth[:, 0].clamp(0, 1).mul(255).round().to(torch.uint8)


def blurred(noise_HW: Tensor, sigma: float, by_axis: bool) -> Tensor:
    """torchvision's gaussian_blur of [H, W], kernel as wide as its ElasticTransform takes it.

    ``by_axis`` makes of its one convolution two, which a Gaussian allows and it does not use.
    """
    taps = int(8 * sigma + 1)
    taps += taps % 2 == 0
    offsets = torch.linspace(-(taps - 1) / 2, (taps - 1) / 2, taps)
    weights = torch.exp(-0.5 * (offsets / sigma) ** 2)
    weights = weights / weights.sum()
    padded = F.pad(noise_HW[None, None], [taps // 2] * 4, mode="reflect")
    if by_axis:
        down = F.conv2d(padded, weights[None, None, :, None])
        return F.conv2d(down, weights[None, None, None, :])[0, 0]
    return F.conv2d(padded, torch.outer(weights, weights)[None, None])[0, 0]


def displacement(noise_2HW: Tensor, sigma: float, alpha: float, by_axis: bool = False) -> Tensor:
    """torchvision's: [H, W, 2] in units in which the image reaches from -1 to 1."""
    x, y = (blurred(noise, sigma, by_axis) * alpha / SIZE for noise in noise_2HW)
    return torch.stack([x, y], dim=-1)


def warped(image_HW: Tensor, shift_HW2: Tensor) -> Tensor:
    """torchvision's elastic: the identity grid, moved, and one bilinear resampling."""
    steps = (torch.arange(SIZE) + 0.5) * (2 / SIZE) - 1
    grid = torch.stack(torch.meshgrid(steps, steps, indexing="xy"), dim=-1) + shift_HW2
    return F.grid_sample(image_HW[None, None], grid[None], align_corners=False)[0, 0]


def given_noise(random: KeyedRandom) -> Tensor:
    """The uniform noise [B, 2, H, W] in [-1, 1] that `Augmentation` draws."""
    pair = torch.stack(random.uniform_pair(ELASTIC_STREAM, SIZE * SIZE), dim=1)
    return (pair * 2 - 1).view(-1, 2, SIZE, SIZE)


def elastic_race(reading: str, count: int) -> Race:
    sigma, alpha = ELASTIC_READINGS[reading]
    none = dict.fromkeys(("angle", "shear", "brightness", "contrast"), 0)
    elastic = {"elastic_probability": 1.0, "elastic_sigma": sigma, "elastic_alpha": alpha}
    augmentation = Augmentation(AugmentationSettings.model_validate(none | elastic))
    images = centre(invent_images(count))
    random = KeyedRandom(torch.arange(count), seed=0, epoch=0, view=0)
    draws, noise = augmentation.draw(random, SIZE, SIZE), given_noise(random)

    def field(i: int, by_axis: bool) -> Tensor:
        # alpha / SIZE of an image that is 2 wide is half of alpha in pixels.
        return displacement(noise[i], sigma, 2 * alpha, by_axis)

    def peer(by_axis: bool) -> Tensor:
        return torch.stack([warped(images[i, 0], field(i, by_axis)) for i in range(count)])

    def check(found: Tensor, wanted: Tensor) -> None:
        edge = int(4 * sigma + 1)
        inside = (..., slice(edge, -edge), slice(edge, -edge))
        ours = augmentation.displacement(random, SIZE, SIZE)
        theirs = torch.stack([field(i, True) for i in range(count)]).permute(0, 3, 1, 2) * (
            SIZE / 2
        )
        torch.testing.assert_close(ours[inside], theirs[inside], atol=NEAR, rtol=0)
        torch.testing.assert_close(found[inside], wanted[inside], atol=NEAR, rtol=0)

    return Race(
        name=f"augmentation_elastic_{reading}",
        what=f"elastic warp of {count} images of {SIZE} x {SIZE} pixels, sigma {sigma:g}, alpha "
        f"{alpha:g} pixels; float32",
        ours=lambda: augmentation.warp(images, draws, random)[:, 0],
        peers={
            "torchvision's algorithm": lambda: peer(by_axis=False),
            "the same, one axis at a time": lambda: peer(by_axis=True),
        },
        check=check,
        gates={"torchvision's algorithm": 8.0},
        amount=count,
        unit="image",
        notes=[
            f"compared: images in [0, 1] of each, and displacement in pixels of the second, to "
            f"{NEAR:g}, but for a border as wide as the kernel reaches: there their noise goes on "
            "reflected, ours is zero outside",
            "the peer is given the noise; ours draws it anew in every turn",
            "torchvision moves a pixel by half of its alpha: the peer gets twice ours",
        ],
    )


def affine(image_HW: Tensor, matrix: Tensor, offset: Tensor) -> Tensor:
    """Resample [H, W] at ``matrix`` [2, 2] @ pixel + ``offset`` [2], from the image's centre."""
    theta = torch.cat([matrix, offset[:, None] / (SIZE / 2)], dim=1)[None]
    grid = F.affine_grid(theta, [1, 1, SIZE, SIZE], align_corners=False)
    return F.grid_sample(image_HW[None, None], grid, align_corners=False)[0, 0]


def one_by_one(image_HW: Tensor, draws: Draws, i: int, noises: tuple[Tensor, Tensor]) -> Tensor:
    """The SimCLR set on one image: each transform by itself, in the order of the settings."""
    sigma, alpha = ELASTIC_READINGS["sigma_4_alpha_34"]
    angle, shear = float(draws.angle[i]), float(draws.shear[i])
    cos, sin = torch.tensor(angle).cos(), torch.tensor(angle).sin()
    rotation = torch.stack([torch.stack([cos, -sin]), torch.stack([sin, cos])])
    sheared = torch.tensor([[1.0, -float(torch.tensor(shear).tan())], [0.0, 1.0]])
    image = affine(image_HW, torch.linalg.inv(rotation @ sheared), torch.zeros(2))
    left, top, width, height = draws.crop[i].tolist()
    scale = torch.diag(torch.tensor([width, height]) / SIZE)
    corner = torch.tensor([left + (width - SIZE) / 2, top + (height - SIZE) / 2])
    image = affine(image, scale, corner)
    if draws.flip[i]:
        image = image.flip(-1)
    for step in "bc" if draws.brightness_first[i] else "cb":
        if step == "b":
            image = (float(draws.brightness[i]) * image).clamp(0, 1)
        else:
            factor = float(draws.contrast[i])
            image = (factor * image + (1 - factor) * image.mean()).clamp(0, 1)
    if draws.elastic[i]:
        image = warped(image, displacement(noises[0], sigma, 2 * alpha))
    left, top, width, height = (int(value) for value in draws.occlusion[i])
    image[top : top + height, left : left + width] = 0
    if draws.noise[i] > 0:
        image = (image + noises[1] * float(draws.noise[i])).clamp(0, 1)
    return image


def simclr_race(count: int) -> Race:
    augmentation = Augmentation(IMAGE_ONLY)
    images, keys = invent_images(count), torch.arange(count)
    random = KeyedRandom(keys, seed=0, epoch=0, view=0)
    draws, noise = augmentation.draw(random, SIZE, SIZE), given_noise(random)
    normal = random.normal(NOISE_STREAM, SIZE * SIZE).view(count, SIZE, SIZE)

    def steps() -> Tensor:
        floats = images.float() / 255
        return torch.stack(
            [one_by_one(floats[i], draws, i, (noise[i], normal[i])) for i in range(count)]
        )

    def check(found: Tensor, wanted: Tensor) -> None:
        # Three resamplings cannot give what one gives: the edge of the black outside is softer.
        difference = (found - wanted).abs().flatten(1)
        assert float(difference.median(dim=1).values.max()) < 1e-3, difference.median(dim=1)
        assert float(difference.mean(dim=1).max()) < 5e-3, difference.mean(dim=1)

    return Race(
        name="augmentation_simclr",
        what=f"the SimCLR set of augmentations on {count} images of {SIZE} x {SIZE} pixels, "
        f"{int(draws.elastic.sum())} of them warped, {int((draws.noise > 0).sum())} with noise",
        ours=lambda: augmentation(images, keys, seed=0, epoch=0)[:, 0],
        peers={"step by step": steps},
        check=check,
        amount=count,
        unit="image",
        notes=[
            "compared: the same parameters and noise; median difference below 0.001, mean below "
            "0.005 of the grey range, as the steps resample three times where one is enough",
            "the peer is given its parameters and noise; ours draws them anew in every turn",
        ],
    )


def races() -> list[Race]:
    return [
        elastic_race("sigma_4_alpha_34", 4),
        elastic_race("sigma_34_alpha_4", 1),
        simclr_race(10),
    ]
