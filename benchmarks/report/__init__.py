"""Pages and pictures: templates, styles, scripts, colours; the content comes from each study."""
