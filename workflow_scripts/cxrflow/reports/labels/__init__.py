"""CheXpert labels of reports: one interface, two engines (scope, chexbert)."""
