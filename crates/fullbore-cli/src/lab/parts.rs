//! All parts of the laboratory, as a table: a group that has parts is a row here.

use super::part::Part;
use super::{latency, page_lookup, pipelines, transports, unix_copy};

/// Each group's parts.
pub const PARTS: &[&[Part]] = &[
    transports::PARTS,
    latency::PARTS,
    page_lookup::PARTS,
    unix_copy::PARTS,
    pipelines::PARTS,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = PARTS.concat().iter().map(|part| part.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
