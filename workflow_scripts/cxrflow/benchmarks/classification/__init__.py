"""Classification of images: by prompts, by linear probes, by fine-tuning."""
