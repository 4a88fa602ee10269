"""The report page of a run in which published weights stand for a model."""

import re

from page_fixtures import load, write_results

from cxrflow.page import page


def test_an_imported_model_is_called_so_and_has_no_training(tmp_path):
    weights = {"biovil/cxr_bert": "/secret/place/CXR-BERT-general"}
    write_results(tmp_path, load(weights=weights))
    html = page.build_page(tmp_path / "report/config.json", tmp_path)
    article = re.search(
        r'<article class="model" id="model-biovil-cxr_bert">(.*?)</article>', html, re.S
    )
    assert article is not None
    text = article[1]
    assert "Text encoder, published weights." in text and "new_token_head: false" in text
    assert "Not trained yet" not in text and "learning_rate" not in text and "<svg" not in text
    other = re.search(r'id="model-biovil-biovil">(.*?)</article>', html, re.S)
    assert other is not None and "from cxr_bert and simclr" in other[1]
    # Of a folder of the user's only the name is passed on.
    assert "/secret/place" not in html and "CXR-BERT-general" in html
    lineage = re.search(r'<figure class="lineage-box">(.*?)</figure>', html, re.S)
    assert lineage is not None and "cxr_bert from nothing" in lineage[1]
