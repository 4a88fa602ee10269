"""The synthetic hospital: copies of data sets in their published layout.

Inputs: none, but the DICOM copy for JPGs of MIMIC-CXR-JPG. Outputs: `<results>/phantom/<layout>/`,
of which MANIFEST.json is written last.
"""


def pictures_drawn_before(wildcards):
    """The DICOM copy, where a cohort's images are MIMIC-CXR-JPG's; else its tables are enough."""
    holders = {layout(run.cohorts[cohort].holder) for cohort, _ in run.whole.stores}
    copied = wildcards.phantom == "mimic_cxr_jpg" and "mimic_cxr_jpg" in holders
    return ["<results>/phantom/mimic_cxr/MANIFEST.json"] if copied else []


def drawing_settings(wildcards, dump):
    """The hospital's settings that matter to this copy, a record or all values."""
    hospital, fields = run.values.synthetic_hospital, HospitalSettings.fields_of(wildcards.phantom)
    return as_json({} if hospital is None else dump(hospital, include=fields))


def drawing_threads(wildcards):
    """Several for drawing the images that all wait for; beside others a job has one core."""
    held = layout_of(wildcards.phantom).holds if wildcards.phantom in LAYOUTS else ()
    first = dataset_priority(wildcards.phantom) == urgency(lambda needs: True)
    drawn = "images" in held and not pictures_drawn_before(wildcards)
    return need("draw_phantom").threads if first and drawn else 1


def drawing_priority(wildcards):
    """What needs several cores goes before what would keep one of them busy."""
    return dataset_priority(wildcards.phantom) + 100 * (drawing_threads(wildcards) > 1)


rule draw_phantom:
    """Draw one data set of the synthetic hospital."""
    input:
        pictures_drawn_before,
    output:
        manifest="<results>/phantom/{phantom}/MANIFEST.json",
    log:
        "<logs>/draw_phantom/{phantom}.log",
    benchmark:
        "<timings>/draw_phantom/{phantom}.tsv"
    wildcard_constraints:
        phantom="[a-z0-9_]+",
    priority: drawing_priority
    conda:
        "../envs/cpu.yaml"
    threads: drawing_threads
    params:
        code=lambda wildcards: code_digest(
            "cxr_hospital.draw", f"cxr_hospital.writers.{wildcards.phantom}"
        ),
        settings=lambda wildcards: drawing_settings(wildcards, HospitalSettings.record),
        given=lambda wildcards, output: drawing_settings(wildcards, HospitalSettings.model_dump),
        jpg=lambda wildcards: ["--jpg"] if pictures_drawn_before(wildcards) else [],
        folder=subpath(output.manifest, parent=True),
    shell:
        r"""
        python -m cxr_hospital.draw \
            --layout {wildcards.phantom:q} \
            --settings {params.given:q} \
            {params.jpg} \
            --threads {threads} \
            {params.folder:q} \
            >{log:q} 2>&1
        """
