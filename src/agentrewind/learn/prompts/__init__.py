"""The words of each environment, in two styles: `full` for pretrained models, `compact` for a tiny one."""
