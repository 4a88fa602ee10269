"""Word stock of the invented abstracts and notes: terms built from morphemes, plain words listed.

The Greek and Latin parts combine freely, so that a few lines give several thousand word types, as
a general biomedical corpus has; few of them occur in radiology reports.
"""

from cxr_hospital.grammar import split_list


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ROOTS = _words(
    "adeno angio arthro broncho cardio cephalo cholecysto chondro colo cranio cysto cyto dermato "
    "encephalo entero fibro gastro glomerulo hemato hepato histo immuno kerato laryngo leuko "
    "lipo lympho meningo myelo myo nephro neuro oculo oligo onco osteo oto pancreato patho "
    "phlebo pneumo procto psycho rhino sialo spleno spondylo stomato teno thrombo thyro tracheo "
    "uro utero vaso"
)
CONDITIONS = _words(
    "algia blastoma carcinoma dynia dysplasia fibrosis genesis itis lysis malacia metaplasia "
    "necrosis oma opathy osis penia philia plegia ptosis rrhagia sclerosis spasm stenosis "
    "toxicity trophy"
)
PROCEDURES = _words("centesis ectomy graphy metry pexy plasty scopy stomy therapy tomy tripsy")
DRUG_STARTS = _words(
    "abi alo ami ato bela beva cabo cefa clo dapa dora duvo elo empa eri ero fida flu gali gefi "
    "gli iba ida imi lapa levo lina lora meto mira nilo nive ola oxa pali pazo pera pona rami "
    "riva rosu sila sita sora suni tela tica tofa tra vala vande vera zani zole"
)
DRUG_ENDS = _words(
    "cillin conazole cycline dipine floxacin gliflozin gliptin lukast mab mycin nib olol parin "
    "platin prazole pril sartan setron statin tidine triptan vir xaban"
)
GENERA = _words(
    "Acinetobacter Aspergillus Bacteroides Borrelia Brucella Campylobacter Candida Chlamydia "
    "Clostridium Cryptococcus Enterococcus Escherichia Haemophilus Helicobacter Klebsiella "
    "Lactobacillus Legionella Leishmania Listeria Mycobacterium Neisseria Plasmodium Proteus "
    "Pseudomonas Rickettsia Salmonella Shigella Staphylococcus Streptococcus Toxoplasma "
    "Treponema Trypanosoma Vibrio Yersinia"
)
SPECIES = _words(
    "albicans aureus baumannii burgdorferi cholerae coli difficile epidermidis faecalis "
    "falciparum fumigatus gondii influenzae jejuni marneffei meningitidis neoformans pneumophila "
    "pylori pyogenes sonnei tuberculosis typhi vivax"
)
PATHWAYS = _words(
    "apoptosis autophagy glycolysis inflammasome Notch Wnt Hedgehog MAPK JAK-STAT mTOR NF-kappaB "
    "PI3K/Akt TGF-beta ferroptosis gluconeogenesis lipogenesis angiogenesis chemotaxis "
    "phosphorylation ubiquitination methylation acetylation endocytosis exocytosis"
)
CELLS = _words(
    "astrocytes chondrocytes enterocytes eosinophils erythrocytes fibroblasts hepatocytes "
    "keratinocytes lymphocytes macrophages mastocytes megakaryocytes melanocytes monocytes "
    "myoblasts neurons neutrophils oligodendrocytes osteoblasts osteoclasts platelets podocytes"
)
SPECIES_STUDIED = split_list(
    "mice, rats, zebrafish larvae, New Zealand rabbits, piglets, Drosophila melanogaster, "
    "Caenorhabditis elegans, nonhuman primates"
)
POPULATIONS = split_list(
    "adults aged 65 years or older, adolescents, children under five, critically ill patients, "
    "hospital employees, kidney transplant recipients, pregnant women, preterm infants, "
    "primary care patients, smokers, veterans, women with gestational diabetes, "
    "patients on hemodialysis, survivors of childhood leukemia, nursing home residents, "
    "outpatients with depression, athletes, men with localized prostate cancer"
)
DESIGNS = split_list(
    "randomized controlled trial, double-blind crossover trial, retrospective cohort study, "
    "prospective observational study, cross-sectional survey, case-control study, "
    "systematic review and meta-analysis, multicenter registry analysis, "
    "Mendelian randomization study, qualitative interview study, cost-effectiveness analysis, "
    "genome-wide association study"
)
OUTCOMES = split_list(
    "all-cause mortality, length of stay, hospital readmission, quality of life, glycemic control, "
    "body mass index, systolic blood pressure, relapse-free survival, pain intensity, "
    "bone mineral density, cognitive performance, adherence to treatment, sleep duration, "
    "wound healing, seizure frequency, serum creatinine, visual acuity, forced expiratory volume, "
    "fatigue scores, viral load, gait speed, birth weight"
)
TECHNIQUES = split_list(
    "western blotting, flow cytometry, quantitative PCR, mass spectrometry, immunohistochemistry, "
    "RNA sequencing, enzyme-linked immunosorbent assay, confocal microscopy, "
    "high-performance liquid chromatography, logistic regression, Cox proportional hazards models, "
    "Kaplan-Meier curves, propensity score matching, linear mixed-effects models, "
    "magnetic resonance imaging, computed tomography, ultrasonography, chest radiography, "
    "electrocardiography, CRISPR-Cas9 editing, single-cell transcriptomics, "
    "electrophysiological recordings"
)
COUNTRIES = _words(
    "Argentina Australia Bangladesh Brazil Canada Chile China Denmark Egypt Ethiopia Finland "
    "France Germany Ghana India Indonesia Iran Italy Japan Kenya Malaysia Mexico Nepal Nigeria "
    "Norway Pakistan Peru Poland Portugal Singapore Spain Sweden Thailand Turkey Uganda Vietnam"
)
ADJECTIVES = _words(
    "acute adverse aggressive benign bilateral chronic clinical congenital diabetic dietary "
    "epigenetic familial gestational hereditary idiopathic inflammatory ischemic juvenile "
    "longitudinal malignant metabolic metastatic nosocomial nutritional pediatric perinatal "
    "perioperative postoperative primary recurrent refractory secondary severe subclinical "
    "synaptic systemic transient traumatic vascular zoonotic"
)
NOUNS = _words(
    "adherence awareness barriers biomarkers burden comorbidity complications deficiency "
    "determinants disparities dosage efficacy etiology exposure feasibility guidelines incidence "
    "infection inflammation intervention literacy management mechanisms microbiota morbidity "
    "mutations outcomes pathogenesis phenotype polymorphisms prevalence prevention prognosis "
    "progression rehabilitation resistance safety screening sensitivity severity signaling "
    "stigma surveillance survival susceptibility symptoms toxicity transmission uptake "
    "utilization vaccination variability"
)
