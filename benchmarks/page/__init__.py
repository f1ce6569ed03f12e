"""Template, styles and scripts of the report; `benchmarks.report` puts them into one page."""
