"""How pages and pictures are put together: templates, styles, scripts, colours; what they show is each study's."""
