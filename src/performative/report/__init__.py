"""Reports: one self-contained HTML file each, for a screen, a phone and paper."""
