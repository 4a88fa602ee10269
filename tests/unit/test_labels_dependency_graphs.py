"""CoNLL-U, the way from UD v2 trees to the patterns' graphs, and NegBio's further edges."""

import pytest
from dependency_fixtures import BROKEN, SENTENCES, VERSION_1, graph_of, named, plain, tree

from cxrflow.errors import InputError
from cxrflow.reports.labels.dependency.conllu import placed, read_conllu
from cxrflow.reports.labels.dependency.graph import BrokenParse
from cxrflow.reports.labels.dependency.propagation import propagate

ROW = "1\tEdema\tedema\tNOUN\tNN\t_\t0\troot\t_\t_\n"


def test_conllu_in_all_its_parts() -> None:
    text = (
        "# sent_id = a\r\n# text = It can't  end.\r\n"
        "1\tIt\tit\tPRON\tPRP\t_\t4\tnsubj\t_\t_\r\n"
        "2-3\tcan't\t_\t_\t_\t_\t_\t_\t_\t_\r\n"
        "2\tca\tcan\tAUX\tMD\t_\t4\taux\t_\t_\r\n"
        "3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t4:advmod|4.1:x\t_\r\n"
        "4\tend\tend\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No\r\n"
        "4.1\tempty\t_\t_\t_\t_\t_\t_\t_\t_\r\n"
        "5\t.\t.\tPUNCT\t.\t_\t4\tpunct\t_\t_\r\n"
        "\r\n\r\n# newdoc\n1\t_\t_\tSYM\tSYM\t_\t0\troot\t_\t_"
    )
    first, second = read_conllu("x", text)
    assert first.text == "It can't end."
    words = placed(first, "IT  can't end.", {})
    assert [(w.form, w.start, w.end) for w in words] == [
        ("It", 0, 2),
        ("ca", 4, 9),
        ("n't", 4, 9),
        ("end", 10, 13),
        (".", 13, 14),
    ]
    assert words[2].lemma == "not" and words[2].extra == ((4, "advmod"),)
    # Without "# text" the tokens make the text; "_" is a form here.
    assert (second.text, second.words[0].lemma) == ("_", "_")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ROW + "2\tx\n", "line 2: 2 columns; expected 10"),
        (ROW.replace("\t", "  "), "line 1: 1 columns"),
        ("\n# c\n" + ROW.replace("1", "one", 1), "line 3: ID 'one'"),
        (ROW + ROW, "line 2: ID 1; expected 2"),
        (ROW.replace("\t0\t", "\tzero\t"), "line 1: HEAD 'zero'"),
        ("1-2\tx" + "\t_" * 8 + "\n" + ROW, "line 2: the range 1-2 has no words"),
    ],
)
def test_bad_conllu_names_file_and_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match=f"some.conllu: {message}"):
        list(read_conllu("some.conllu", text))


@pytest.mark.parametrize("text", ["Edemas", "An edema", "Ede ma", ""])
def test_tokens_must_fit_the_text(text: str) -> None:
    (parse,) = read_conllu("x", ROW)
    assert placed(parse, " edema ", {})[0].start == 1
    with pytest.raises(BrokenParse):
        placed(parse, text, {})


def test_every_broken_parse_is_found() -> None:
    parses = list(read_conllu("broken", BROKEN.read_text("utf-8")))
    assert len(parses) == 7
    for parse in parses:
        with pytest.raises(BrokenParse):
            graph_of(parse)


def test_hand_written_trees_all_become_graphs() -> None:
    parses = list(read_conllu("sentences", SENTENCES.read_text("utf-8")))
    assert len(parses) >= 45
    for parse in parses:
        graph = graph_of(parse)
        for word, node in zip(parse.words, graph.nodes, strict=True):
            assert word.form.lower() in parse.text[node.start : node.end].lower()


def edges(*rows: str) -> set[tuple[str, str, str]]:
    return named(tree(*rows))


def test_prepositions_and_objects() -> None:
    found = edges(
        "Findings finding NNS 2 nsubj:pass",
        "seen see VBN 0 root",
        "in in IN 5 case",
        "spite spite NN 3 fixed",
        "drain drain NN 2 obl",
        "by by IN 7 case",
        "us we PRP 2 obl:agent",
        "today today NN 2 obl:tmod",
        "there there RB 2 obl",
    )
    assert ("seen", "findings", "nsubjpass") in found
    assert ("seen", "drain", "nmod:in_spite") in found
    assert ("in", "spite", "mwe") in found
    assert ("seen", "us", "nmod:agent") in found
    assert ("seen", "today", "nmod:tmod") in found
    assert ("seen", "there", "nmod") in found


@pytest.mark.parametrize(
    ("rows", "relation"),
    [
        (("No no DT 2 det", "edema edema NN 0 root"), "neg"),
        (("An a DT 2 det", "edema edema NN 0 root"), "det"),
        (("not not RB 2 advmod", "seen see VBN 0 root"), "neg"),
        (("never never RB 2 advmod", "seen see VBN 0 root"), "neg"),
        (("no no RB 2 advmod", "longer long RBR 0 root"), "neg"),
        (("Edema edema NN 0 root", "no no RB 1 advmod"), "advmod"),
        (("without without IN 2 case", "edema edema NN 0 root"), "case"),
    ],
)
def test_negation(rows: tuple[str, ...], relation: str) -> None:
    assert {r for _, _, r in edges(*rows)} == {relation}


def test_cannot_is_one_word() -> None:
    rows = ("Can can MD 3 aux", "not not RB 3 advmod", "exclude exclude VB 0 root")
    assert named(tree(*rows)) == {("exclude", "can", "aux"), ("exclude", "not", "neg")}
    text = "".join(
        f"{i}\t{row.split()[0]}\t{row.split()[1]}\t_\t_\t_\t{row.split()[3]}\t{row.split()[4]}\t_\t_\n"
        for i, row in enumerate(rows, start=1)
    )
    (parse,) = read_conllu("x", "1-2\tCannot" + "\t_" * 8 + "\n" + text)
    graph = graph_of(parse)
    assert named(graph) == {("exclude", "can", "aux")}
    assert graph.nodes[0].lemma == "cannot"
    assert tree("Cannot can MD 2 aux", "see see VB 0 root").nodes[0].lemma == "cannot"


def test_rule_out_and_participles() -> None:
    found = edges("Rule rule VB 0 root", "out out RP 1 compound:prt", "edema edema NN 1 obj")
    assert ("rule", "edema", "nmod:out") in found
    graph = tree("It it PRP 3 nsubj", "is be VBZ 3 cop", "enlarged enlarged JJ 0 root")
    assert named(graph) == {("enlarged", "it", "nsubjpass"), ("enlarged", "is", "auxpass")}
    assert graph.nodes[2].lemma == "enlarge"
    assert edges("enlarged enlarged JJ 2 amod", "heart heart NN 0 root") == {
        ("heart", "enlarged", "amod")
    }


def test_conjuncts_are_named_and_hang_with_the_first() -> None:
    found = edges(
        "There there EX 2 expl",
        "is be VBZ 0 root",
        "edema edema NN 2 nsubj",
        ", , , 5 punct",
        "effusion effusion NN 3 conj",
        "or or CC 7 cc",
        "scar scar NN 3 conj",
    )
    assert {("edema", "effusion", "conj:or"), ("edema", "scar", "conj:or")} <= found
    assert {("is", w, "nsubj") for w in ("edema", "effusion", "scar")} <= found
    assert ("edema", "or", "cc") in found and ("scar", "or", "cc") not in found


@pytest.mark.parametrize(
    ("marks", "relation"),
    [
        (("or or CC 4 cc", "_ _ _ 4 punct"), "conj:or"),
        (("and and CC 4 cc", "or or CC 4 cc"), "conj:and_or"),
        (("and/or and/or CC 4 cc", "_ _ _ 4 punct"), "conj:and/or"),
        (("rather rather RB 4 cc", "than than IN 2 fixed"), "conj:negcc"),
        (("but but CC 4 cc", "not not RB 4 advmod"), "conj:negcc"),
        (("but but CC 4 cc", "a a DT 4 det"), "conj:but"),
        (("vs. vs. CC 4 cc", "_ _ _ 4 punct"), "conj:versus"),
        (("_ _ _ 4 punct", ", , , 4 punct"), "conj"),
    ],
)
def test_conjunctions(marks: tuple[str, str], relation: str) -> None:
    found = edges("Edema edema NN 0 root", *marks, "scar scar NN 1 conj")
    assert ("edema", "scar", relation) in found


def test_versus_as_preposition_joins() -> None:
    rows = ("Edema edema NN 0 root", "versus versus IN 3 case", "scar scar NN 1 nmod")
    assert ("edema", "scar", "conj:versus") in edges(*rows)


def test_conjunct_keeps_a_preposition_of_its_own() -> None:
    rows = [
        "Signs sign NNS 0 root",
        "of of IN 3 case",
        "edema edema NN 1 nmod",
        "and and CC 6 cc",
        "for for IN 6 case",
        "scar scar NN 3 conj",
    ]
    assert ("signs", "scar", "nmod:for") in edges(*rows)
    rows[4] = "a a DT 6 det"
    assert ("signs", "scar", "nmod:of") in edges(*rows)


def test_subjects_are_shared_and_controlled() -> None:
    found = edges(
        "Heart heart NN 2 nsubj",
        "appears appear VBZ 0 root",
        "normal normal JJ 2 xcomp",
        "and and CC 6 cc",
        "is be VBZ 6 aux:pass",
        "seen see VBN 2 conj",
    )
    assert ("normal", "heart", "nsubj") in found
    assert ("seen", "heart", "nsubjpass") in found


def test_relative_clause_has_what_it_tells_of_as_subject() -> None:
    found = edges(
        "Edema edema NN 0 root",
        "that that WDT 4 nsubj",
        "has have VBZ 4 aux",
        "resolved resolve VBN 1 acl:relcl",
    )
    assert {("resolved", "edema", "nsubj"), ("edema", "that", "ref")} <= found
    assert ("resolved", "that", "nsubj") not in found


def test_version_1_is_taken_as_it_is() -> None:
    collapsed, simple = map(graph_of, read_conllu("v1", VERSION_1.read_text("utf-8")))
    assert {("evidence", "no", "neg"), ("pneumonia", "edema", "conj:or")} <= named(collapsed)
    assert ("evidence", "edema", "nmod:of") in named(collapsed)
    assert ("free", "consolidation", "nmod:of") in named(simple)


def test_tags_without_a_penn_column_come_from_the_universal_ones() -> None:
    (parse,) = read_conllu("x", ROW.replace("\tNN\t", "\t_\t"))
    assert graph_of(parse).nodes[0].tag == "NN"


CASES = {
    "negation of an apposition's noun": (
        plain(["edema", "no", "swelling"], (0, 1, "neg"), (0, 2, "appos")),
        {("swelling", "no", "neg")},
    ),
    "apposition hangs where its noun hangs": (
        plain(["see", "edema", "swelling"], (0, 1, "dobj"), (1, 2, "appos")),
        {("see", "swelling", "dobj")},
    ),
    "negation of an unknown dependant": (
        plain(["edema", "swelling", "no"], (0, 1, "dep"), (1, 2, "neg")),
        {("edema", "no", "neg")},
    ),
    "conjuncts share negation and adjectives": (
        plain(["edema", "no", "new", "scar"], (0, 1, "neg"), (0, 2, "amod"), (0, 3, "conj:or")),
        {("scar", "no", "neg"), ("scar", "new", "amod")},
    ),
    "conjuncts share without, and no other preposition": (
        plain(
            ["edema", "without", "with", "scar"],
            (0, 1, "case"),
            (0, 2, "case"),
            (0, 3, "conj:and"),
        ),
        {("scar", "without", "case")},
    ),
    "an area of something is something": (
        plain(["see", "area", "edema"], (0, 1, "dobj"), (1, 2, "nmod:of")),
        {("see", "edema", "dobj")},
    ),
    "no something of edema": (
        plain(["sign", "no", "edema"], (0, 1, "neg"), (0, 2, "nmod:of")),
        {("edema", "no", "neg")},
    ),
    "without something of edema": (
        plain(["sign", "without", "edema"], (0, 1, "case"), (0, 2, "nmod:of")),
        {("edema", "without", "case")},
    ),
    "no A and B read as one noun": (
        plain(["scar", "no", "edema", "and"], (0, 1, "neg"), (0, 2, "compound"), (0, 3, "cc")),
        {("edema", "no", "neg")},
    ),
    "hypoinflated but clear of edema": (
        plain(["hypoinflated", "clear", "edema"], (0, 1, "conj:but"), (0, 2, "nmod:of"), tag="JJ"),
        {("clear", "edema", "nmod:of")},
    ),
    "verbs share nothing": (
        plain(["see", "not", "show"], (0, 1, "neg"), (0, 2, "conj:and"), tag="VB"),
        set(),
    ),
    "twice over": (
        plain(
            ["edema", "no", "scar", "swelling"], (0, 1, "neg"), (0, 2, "conj:or"), (2, 3, "appos")
        ),
        {("scar", "no", "neg"), ("swelling", "no", "neg"), ("edema", "swelling", "conj:or")},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_propagation(case: str) -> None:
    graph, added = CASES[case]
    before = named(graph)
    propagate(graph)
    assert named(graph) == before | added
