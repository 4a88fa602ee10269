"""Named entities of reports and words of change, from which BioViL-T's TEM and NEM are counted."""
