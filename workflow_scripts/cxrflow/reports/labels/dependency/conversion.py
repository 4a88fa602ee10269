"""From a UD v2 tree, as today's parsers give it, to the graph that the patterns were written for.

The published patterns go by Stanford's converter of 2016: UD v1 relations, prepositions and
conjunctions in the relation's name ("nmod:of", "conj:or"), relations shared by conjuncts
(de Marneffe et al. 2014; Schuster and Manning 2016, section 3). A sentence whose relations are
UD v1 already is taken as it is.

Beyond the renaming, three habits of today's parsers are turned into what the patterns know:
"cannot" split in two is one word again, "rule out" governs what is ruled out as ``nmod:out``, and
a participle read as an adjective ("is not enlarged") is the verb's passive.
"""

import re
from collections.abc import Sequence

from cxrflow.reports.labels.dependency.conllu import Word
from cxrflow.reports.labels.dependency.graph import BrokenParse, Graph, Node

RENAMED = {
    "obj": "dobj",
    "nsubj:pass": "nsubjpass",
    "nsubj:outer": "nsubj",
    "csubj:pass": "csubjpass",
    "csubj:outer": "csubj",
    "aux:pass": "auxpass",
    "obl:agent": "nmod:agent",
    "obl:tmod": "nmod:tmod",
    "obl:npmod": "nmod:npmod",
    "obl:unmarked": "nmod:npmod",
    "nmod:unmarked": "nmod:npmod",
    "advcl:relcl": "advcl",
    "flat": "compound",
    "flat:name": "compound",
    "flat:foreign": "compound",
    "fixed": "mwe",
    "orphan": "dep",
}
# Relations, and subtypes of nmod and conj, that tell the two versions apart.
OF_VERSION_1 = frozenset(("dobj", "nsubjpass", "csubjpass", "auxpass", "neg", "mwe", "name"))
OF_VERSION_2 = re.compile(r"obj|obl|fixed|flat|(obl|flat|nsubj|csubj|aux):.*")
NAMED_CASE = re.compile(r"(nmod|conj):(?!(?:agent|attr|desc|gmod|npmod|poss|tmod|unmarked)$)")

# Adjectives of the parser that are verbs in the patterns.
PARTICIPLES = {
    "appreciated": "appreciate",
    "demonstrated": "demonstrate",
    "enlarged": "enlarge",
    "evaluated": "evaluate",
    "excluded": "exclude",
    "obscured": "obscure",
    "removed": "remove",
    "seen": "see",
    "suspected": "suspect",
    "visualized": "visualize",
}
PASSIVE = {"nsubj": "nsubjpass", "csubj": "csubjpass", "cop": "auxpass"}
NEGATIONS = frozenset(("no", "not", "n't", "never"))
VERSUS = frozenset(("versus", "vs", "vs."))
INSTEAD = frozenset(("rather_than", "instead_of", "but_not"))
SUBJECTS = ("nsubj", "nsubjpass", "csubj", "csubjpass")
PENN = {"NOUN": "NN", "PROPN": "NNP", "VERB": "VB", "AUX": "MD", "ADJ": "JJ", "NUM": "CD"}


def is_version_1(words: Sequence[Word]) -> bool:
    """Whether a sentence's relations are UD v1 (perhaps collapsed) already."""
    relations = [word.relation for word in words]
    if any(OF_VERSION_2.fullmatch(relation) for relation in relations):
        return False
    return any(r in OF_VERSION_1 or NAMED_CASE.match(r) for r in relations)


def check_tree(words: Sequence[Word]) -> None:
    """Make sure of one root and of a way to it from every word.

    Raises:
        BrokenParse: the heads are no tree.
    """
    if sum(word.head == 0 for word in words) != 1:
        raise BrokenParse("not exactly one root")
    if any(not 0 <= word.head <= len(words) for word in words):
        raise BrokenParse("a head is no word of the sentence")
    # 0: not seen, 1: on the present path, 2: leads to the root.
    state = [2, *(0 for _ in words)]
    for first in range(1, len(words) + 1):
        path = []
        at = first
        while state[at] == 0:
            state[at] = 1
            path.append(at)
            at = words[at - 1].head
        if state[at] == 1:
            raise BrokenParse("a cycle")
        for seen in path:
            state[seen] = 2


def to_graph(words: Sequence[Word]) -> Graph:
    """The graph of a sentence's words (UD v2 tree, or UD v1 of any kind).

    Raises:
        BrokenParse: the heads are no tree, or name no word.
    """
    if not words:
        raise BrokenParse("no words")
    if is_version_1(words) and any(word.extra for word in words):
        graph = Graph(_node(word) for word in words)
        for i, word in enumerate(words):
            for head, relation in word.extra:
                if head > len(words):
                    raise BrokenParse("a head is no word of the sentence")
                if head:
                    graph.add(head - 1, i, relation)
        return graph
    check_tree(words)
    if is_version_1(words):
        graph = Graph(_node(word) for word in words)
        for i, word in enumerate(words):
            if word.head:
                graph.add(word.head - 1, i, word.relation)
        return graph
    return _Converter(words).graph()


def _node(word: Word, lemma: str = "") -> Node:
    tag = word.xpos or PENN.get(word.upos, "XX")
    return Node(word.form.lower(), lemma or word.lemma.lower(), tag, word.start, word.end)


class _Converter:
    """One UD v2 tree on its way; words by number from 0, the root's head is -1."""

    def __init__(self, words: Sequence[Word]):
        self._words = words
        self._heads = [word.head - 1 for word in words]
        self._relations = [RENAMED.get(word.relation, word.relation) for word in words]
        self._lemmas = [word.lemma.lower() for word in words]
        self._children: list[list[int]] = [[] for _ in words]
        for i, head in enumerate(self._heads):
            if head >= 0:
                self._children[head].append(i)
        # Words without an edge of their own: the "not" of "cannot".
        self._loose: set[int] = set()

    def graph(self) -> Graph:
        """The UD v1 graph, collapsed, with relations shared by conjuncts."""
        self._join_cannot()
        for i in range(len(self._words)):
            self._adapt(i)
        self._name_relations()
        nodes = (_node(w, lemma) for w, lemma in zip(self._words, self._lemmas, strict=True))
        graph = Graph(nodes)
        for i, head in enumerate(self._heads):
            if head >= 0 and i not in self._loose:
                graph.add(head, i, self._relations[i])
        self._share(graph)
        self._add_controlled(graph)
        return graph

    def _of(self, i: int, *relations: str) -> list[int]:
        """The dependants of word ``i`` with one of the relations, in order."""
        return [c for c in self._children[i] if self._relations[c] in relations]

    def _join_cannot(self) -> None:
        for i, word in enumerate(self._words):
            after = self._words[i + 1] if i + 1 < len(self._words) else word
            together = (word.start, word.end) == (after.start, after.end) or word.end == after.start
            if word.form.lower() == "cannot":
                self._lemmas[i] = "cannot"
            elif (word.form.lower(), after.form.lower()) == ("can", "not") and together:
                self._lemmas[i] = "cannot"
                self._loose.add(i + 1)

    def _adapt(self, i: int) -> None:
        """Relations of one word that other words decide."""
        relation, lemma, head = self._relations[i], self._lemmas[i], self._heads[i]
        negates = (relation == "advmod" and lemma in NEGATIONS) or (
            relation == "det" and lemma == "no"
        )
        # "no" as an adverb negates what follows it: "no longer", not "Effusion: no".
        if negates and (lemma != "no" or head > i):
            self._relations[i] = "neg"
        verb = PARTICIPLES.get(lemma)
        if verb and self._of(i, "cop"):
            self._lemmas[i] = verb
            for child in self._children[i]:
                self._relations[child] = PASSIVE.get(self._relations[child], self._relations[child])
        if lemma == "rule" and any(
            self._lemmas[c] == "out" for c in self._of(i, "compound:prt", "advmod")
        ):
            for child in self._of(i, "dobj", "nsubjpass"):
                self._relations[child] = "nmod:out"

    def _phrase(self, marks: Sequence[int]) -> str:
        """Function words with the rest of their fixed expressions: "rather_than"."""
        forms = [self._words[j].form.lower() for i in marks for j in (i, *self._of(i, "mwe"))]
        return "_".join(forms)

    def _case_relation(self, i: int) -> str:
        """The relation of a word that hangs on its governor as nmod or obl."""
        phrase = self._phrase(self._of(i, "case"))
        if phrase in VERSUS:
            return "conj:versus"
        if phrase in INSTEAD:
            return "conj:negcc"
        return f"nmod:{phrase}" if phrase else "nmod"

    def _name_relations(self) -> None:
        conjuncts: dict[int, list[int]] = {}
        for i, relation in enumerate(self._relations):
            if relation in ("nmod", "obl") or relation.startswith("obl:"):
                self._relations[i] = self._case_relation(i)
            elif relation.partition(":")[0] == "conj":
                conjuncts.setdefault(self._heads[i], []).append(i)
        for first, rest in conjuncts.items():
            names = [self._conjunction(i) for i in rest]
            for k, i in enumerate(rest):
                # "A, B or C": B is joined as C is; in "A or B, C" C as B is.
                name = next(filter(None, (*names[k:], *reversed(names[:k]))), "")
                self._relations[i] = f"conj:{name}" if name else "conj"
            for i in rest:
                for mark in self._of(i, "cc"):
                    self._heads[mark] = first

    def _conjunction(self, i: int) -> str:
        """How a conjunct's own conjunction is called in its relation ("" for none)."""
        marks = self._of(i, "cc")
        phrase = self._phrase(marks)
        if phrase == "but" and marks[0] + 1 in self._of(i, "neg"):
            phrase = "but_not"
        if phrase in INSTEAD:
            return "negcc"
        if phrase in VERSUS:
            return "versus"
        return {"as_well_as": "and", "&": "and"}.get(phrase, phrase)

    def _depth_order(self) -> list[int]:
        order = [i for i, head in enumerate(self._heads) if head < 0]
        for i in order:
            order += self._children[i]
        return order

    def _share(self, graph: Graph) -> None:
        """Conjuncts hang where the first of them hangs, and predicates share its subject."""
        for i in self._depth_order():
            if not self._relations[i].startswith("conj"):
                continue
            first = self._heads[i]
            for governor, relation in list(graph.parents[first].items()):
                if relation.startswith("conj"):
                    continue
                if relation.startswith("nmod:") and self._of(i, "case"):
                    relation = self._case_relation(i)
                graph.add(governor, i, relation)
            predicate = graph.nodes[i].tag.startswith(("V", "J")) or graph.has_child(i, "cop")
            if predicate and not graph.has_child(i, *SUBJECTS):
                kind = "nsubjpass" if graph.has_child(i, "auxpass") else "nsubj"
                for subject, relation in list(graph.children[first].items()):
                    if relation in ("nsubj", "nsubjpass"):
                        graph.add(i, subject, kind)

    def _add_controlled(self, graph: Graph) -> None:
        """Subjects of "appears normal" (normal) and of relative clauses (what they tell of)."""
        for governor, i, relation in graph.edges():
            if relation == "xcomp" and not graph.has_child(i, *SUBJECTS):
                by_relation = {r: c for c, r in graph.children[governor].items()}
                for kind in ("dobj", "nsubj", "nsubjpass"):
                    if kind in by_relation:
                        graph.add(i, by_relation[kind], "nsubj")
                        break
            elif relation == "acl:relcl":
                for child, kind in list(graph.children[i].items()):
                    pronoun = self._lemmas[child] in ("which", "that", "who")
                    if pronoun and kind in ("nsubj", "nsubjpass", "dobj"):
                        graph.remove(i, child)
                        graph.add(i, governor, kind)
                        graph.add(governor, child, "ref")
