"""CheXpert labels of reports: one interface, three engines (scope, dependency, chexbert)."""
