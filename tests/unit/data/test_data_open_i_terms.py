"""Open-I's index terms as CheXpert labels: hand-worked reports, and the page that explains them."""

from pathlib import Path

import pytest
import yaml

from cxr_labels.observations import OBSERVATIONS
from cxrflow.data.readers.open_i import read_term_labels
from cxrflow.data.readers.open_i_terms import IndexTerm, observations_of
from cxrflow.programs.source_code import PACKAGE

REPORT = """<eCitation><uId id="CXR{number}"/><MedlineCitation><Article><Abstract>
<AbstractText Label="FINDINGS">Text.</AbstractText></Abstract></Article></MedlineCitation>
<MeSH>{terms}</MeSH></eCitation>"""


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        (["normal"], {"No Finding"}),
        (["Opacity/lung/base/right"], {"Lung Opacity"}),
        (["Opacity/lung/base/right/round"], {"Lung Opacity", "Lung Lesion"}),
        (["Opacity/ribs/anterior/round"], {"Lung Opacity"}),
        (["Nodule/lung/base/left"], {"Lung Lesion"}),
        (["Nodule/lung/base/left", "Calcinosis/lung/base/left"], set()),
        (["Nodule/lung/base/left/small", "Calcinosis/lung/base/left"], set()),
        (["Nodule/lung/base/left", "Calcinosis/lung/hilum"], {"Lung Lesion"}),
        (["Nodule/pleura/left"], set()),
        (["Density/lung/base", "Calcified Granuloma/lung/base"], set()),
        (["Density/thorax/right"], set()),
        (["Cardiac Shadow/enlarged/mild"], {"Cardiomegaly"}),
        (["Cardiac Shadow/obscured"], set()),
        (["Cicatrix/lung/apex"], {"Lung Opacity"}),
        (["Cicatrix/pleura/apex"], {"Pleural Other"}),
        (["Markings/bronchovascular"], {"No Finding"}),
        (["Markings/bronchovascular/prominent"], {"Lung Opacity"}),
        (["Hydropneumothorax/right"], {"Pneumothorax", "Pleural Effusion"}),
        (["Catheters, Indwelling/right"], {"Support Devices", "No Finding"}),
        (["Catheters, Indwelling/right", "Lung/hyperdistention"], {"Support Devices"}),
        (["Lung/hypoinflation", "Technical Quality of Image Unsatisfactory "], {"No Finding"}),
        (["Scoliosis/thoracic vertebrae"], set()),
    ],
)
def test_terms_of_a_report(terms: list[str], expected: set[str]) -> None:
    assert observations_of(terms) == expected


def test_a_term_is_its_name_and_qualifiers() -> None:
    assert IndexTerm.parse("Pneumonectomy/lung/right /upper  lobe") == IndexTerm(
        "Pneumonectomy", frozenset(("lung", "right", "upper lobe"))
    )


def test_reports_without_terms_have_no_labels(tmp_path: Path) -> None:
    folder = tmp_path / "ecgen-radiology"
    folder.mkdir()
    for number, terms in enumerate((["Edema"], ["No Indexing"], [], ["Pulmonary Edema/mild"])):
        text = "".join(f"<major>{term}</major>" for term in terms)
        (folder / f"{number}.xml").write_text(REPORT.format(number=number, terms=text))
    labels = read_term_labels(tmp_path)
    assert list(labels["study_id"]) == ["CXR0", "CXR3"]
    assert tuple(labels.columns[1:]) == OBSERVATIONS
    assert list(labels["Edema"]) == [0, 1] and labels.iloc[0, 1:].sum() == 0


def test_every_term_of_the_rules_is_explained() -> None:
    rules = yaml.safe_load((PACKAGE / "data" / "readers" / "open_i_terms.yaml").read_text())
    page = (PACKAGE.parents[1] / "docs" / "open_i_terms.md").read_text()
    named = [rule for part in rules["observations"].values() for rule in part]
    for rule in named + rules["not_findings"]:
        for word in (*rule["terms"], *rule.get("with", ()), *rule.get("without", ())):
            assert word in page, word
