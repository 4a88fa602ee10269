"""The 193 labels of PadChest (Bustos et al. 2020) in the order in which KAD scores them.

KAD (Zhang et al. 2023) lists them in its evaluation on PadChest, which is under the MIT licence.
Four are no findings: normal, unchanged, exclude and suboptimal study.
"""

_LIST = """
normal; pulmonary fibrosis; chronic changes; kyphosis; pseudonodule; ground glass pattern;
unchanged; alveolar pattern; interstitial pattern; laminar atelectasis; pleural effusion; apical
pleural thickening; suture material; sternotomy; endotracheal tube; infiltrates; heart
insufficiency; hemidiaphragm elevation; superior mediastinal enlargement; aortic elongation;
scoliosis; sclerotic bone lesion; supra aortic elongation; vertebral degenerative changes;
goiter; COPD signs; air trapping; descendent aortic elongation; aortic atheromatosis; metal;
hypoexpansion basal; abnormal foreign body; central venous catheter via subclavian vein; central
venous catheter; vascular hilar enlargement; pacemaker; atelectasis; vertebral anterior
compression; hiatal hernia; pneumonia; diaphragmatic eventration; consolidation; calcified
densities; cardiomegaly; fibrotic band; tuberculosis sequelae; volume loss; bronchiectasis;
single chamber device; emphysema; vertebral compression; bronchovascular markings; bullas; hilar
congestion; exclude; axial hyperostosis; aortic button enlargement; calcified granuloma;
clavicle fracture; pulmonary mass; dual chamber device; increased density; surgery neck;
osteosynthesis material; costochondral junction hypertrophy; segmental atelectasis; costophrenic
angle blunting; calcified pleural thickening; hyperinflated lung; callus rib fracture; pleural
thickening; mediastinal mass; nipple shadow; surgery heart; pulmonary artery hypertension;
central vascular redistribution; tuberculosis; nodule; cavitation; granuloma; osteopenia; lobar
atelectasis; surgery breast; NSG tube; hilar enlargement; gynecomastia; atypical pneumonia;
cervical rib; mediastinal enlargement; major fissure thickening; surgery; azygos lobe;
adenopathy; miliary opacities; suboptimal study; dai; mediastinic lipomatosis; surgery lung;
mammary prosthesis; humeral fracture; calcified adenopathy; reservoir central venous catheter;
vascular redistribution; hypoexpansion; heart valve calcified; pleural mass; loculated pleural
effusion; pectum carinatum; subacromial space narrowing; central venous catheter via jugular
vein; vertebral fracture; osteoporosis; bone metastasis; lung metastasis; cyst; humeral
prosthesis; artificial heart valve; mastectomy; pericardial effusion; lytic bone lesion;
subcutaneous emphysema; pulmonary edema; flattened diaphragm; asbestosis signs; multiple
nodules; prosthesis; pulmonary hypertension; soft tissue mass; tracheostomy tube;
endoprosthesis; post radiotherapy changes; air bronchogram; pectum excavatum; calcified
mediastinal adenopathy; central venous catheter via umbilical vein; thoracic cage deformation;
obesity; tracheal shift; external foreign body; atelectasis basal; aortic endoprosthesis; rib
fracture; calcified fibroadenoma; pneumothorax; reticulonodular interstitial pattern; reticular
interstitial pattern; chest drain tube; minor fissure thickening; fissure thickening;
hydropneumothorax; breast mass; blastic bone lesion; respiratory distress; azygoesophageal
recess shift; ascendent aortic elongation; lung vascular paucity; kerley lines; electrical
device; artificial mitral heart valve; artificial aortic heart valve; total atelectasis; non
axial articular degenerative changes; pleural plaques; calcified pleural plaques; lymphangitis
carcinomatosa; lepidic adenocarcinoma; mediastinal shift; ventriculoperitoneal drain tube;
esophagic dilatation; dextrocardia; end on vessel; right sided aortic arch; Chilaiditi sign;
aortic aneurysm; loculated fissural effusion; fracture; air fluid level; round atelectasis;
mass; double J stent; pneumoperitoneo; abscess; pulmonary artery enlargement; bone cement;
pneumomediastinum; catheter; surgery humeral; empyema; nephrostomy tube; sternoclavicular
junction hypertrophy; pulmonary venous hypertension; gastrostomy tube; lipomatosis
"""
NAMES = tuple(" ".join(name.split()) for name in _LIST.split(";"))
