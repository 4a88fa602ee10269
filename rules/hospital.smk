"""The synthetic hospital: copies of data sets in their published layout.

Inputs: none, but the DICOM copy for JPGs of MIMIC-CXR-JPG. Outputs: `<results>/phantom/<layout>/`,
of which MANIFEST.json is written last.
"""


include: "inputs/hospital.smk"


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
