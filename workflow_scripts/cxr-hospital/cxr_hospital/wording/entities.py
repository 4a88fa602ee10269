"""Words of the reports that are anatomy, observations, modifiers of either, or hedges.

The five types are those of stanza's published radiology model. A row is a list of words, or of
phrases with commas between; of two that fit at one place the longer wins. Severity words and the
names of devices are not listed: ``cxr_hospital.entities`` takes them from ``observations`` and
``devices``.
"""

from collections.abc import Mapping

WORDS: Mapping[str, tuple[str, ...]] = {
    "ANATOMY": (
        "lung lungs midlung lobe lobes zone zones region regions apex apices apical biapical",
        "base bases basilar bibasilar basal bibasal hilum hilar perihilar hemithorax chest",
        "pleural pulmonary cardiac heart mediastinal mediastinum cardiomediastinal silhouette",
        "aorta aortic cardiopulmonary intrathoracic intraperitoneal airspace parenchymal",
        "interstitial alveolar vascular vasculature vessels bronchovascular costophrenic angle",
        "angles rib ribs osseous abdomen diaphragm hemidiaphragm stomach bowel carina SVC lobar",
        "contours",
    ),
    "OBSERVATION": (
        "effusion effusions pneumothorax edema cardiomegaly consolidation consolidated opacity",
        "opacities opacification haziness hazier atelectasis pneumonia bronchopneumonia infection",
        "infiltrate nodule mass fracture congestion fluid aspiration blunting lucency density",
        "enlargement markings calcifications levoscoliosis dextroscoliosis distention abnormality",
        "process disease rotation rotated clear volumes inspiration leads air",
    ),
    "ANATOMY_MODIFIER": (
        "left right both bilateral bilaterally left-sided right-sided upper lower mid posterior",
        "anterior lateral third fourth fifth sixth eighth ninth posteriorly dependently",
    ),
    "OBSERVATION_MODIFIER": (
        "new newly increase increased increasing worse worsened worsening progressed progression",
        "progressive improved improving improvement decrease decreased decreasing resolved",
        "resolving resolution cleared residual unchanged stable persistent similar change changed",
        "removal removed placed streaky linear platelike bandlike patchy hazy confluent",
        "heterogeneous nodular ground-glass ill-defined nonspecific indeterminate focal acute",
        "active overt visible displaced healing free normal unremarkable enlarged intact tortuous",
        "calcified unfolded low atherosclerotic gaseous layering moderately mildly slightly",
        "severely markedly massively engorged indistinct cephalized prominent suspicious",
        "asymmetric infectious inflammatory superimposed early developing diffuse minimally",
        "definite convincing expanded",
    ),
    "UNCERTAINTY": (
        "possible possibly probable probably likely suspected questionable may could appears",
        "suggesting suggests",
    ),
}
PHRASES: Mapping[str, tuple[str, ...]] = {
    "ANATOMY": (
        "lung base, lung bases, lung apex, lung apices, lung fields, chest wall, chest walls",
        "pleural surface, pleural surfaces, cardiac silhouette, cardiomediastinal silhouette",
        "osseous structures, bony structures, thoracic spine, aortic knob, cavoatrial junction",
        "GE junction, gastroesophageal junction, right atrium, right ventricle, internal jugular",
    ),
    "ANATOMY_MODIFIER": ("3rd, 6th, 8th",),
    "OBSERVATION": (
        "air bronchograms, free air, volume loss, heart failure, fluid overload, volume overload",
        "degenerative changes, pleural line, visceral pleural line, cortical irregularity",
        "step-off, inspiratory effort, support device, indwelling line or tube",
    ),
    "UNCERTAINTY": (
        "cannot be excluded, cannot be entirely excluded, cannot be completely excluded",
        "is not excluded, difficult to exclude, should be considered, most likely, may be",
        "concerning for, worrisome for, suspicious for, suggestive of, raise concern for",
        "uncertain etiology",
    ),
    # Not entities, though a word of theirs is one elsewhere.
    "O": (
        "PA and lateral, may be helpful, chest radiograph, chest radiographs, chest CT",
        "document resolution, ensure resolution, confirm resolution",
    ),
}
