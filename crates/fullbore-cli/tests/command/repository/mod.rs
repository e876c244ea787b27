//! What the repository promises: its documentation, its structure, its packages, and what `fullbore` prints about itself.

mod completions;
mod documentation;
mod json_keys;
mod manual;
mod mistakes;
mod packaging;
mod quoted_figures;
mod structure;
mod without_effect;
