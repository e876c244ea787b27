//! The properties that fuzzing checks (`fuzz/properties.rs`), for files of its corpus and changed ones.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;
use std::time::{Duration, Instant};

#[path = "../../../../fuzz/properties.rs"]
#[allow(dead_code)]
mod properties;

pub use properties::{ALL, Property};

/// Checks a property of each file of its corpus, and of changed ones until so many were tried or the time is up.
pub fn check(name: &str, property: Property, seed: u64, most: usize, time: Duration) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let files = fs::read_dir(folder.join(name)).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    let corpus: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    let mut random = fastrand::Rng::with_seed(seed);
    let began = Instant::now();
    let changed = (0..most).map_while(|_| {
        let has_time = began.elapsed() < time;
        has_time.then(|| properties::changed(&corpus, &mut random))
    });
    for bytes in corpus.iter().cloned().chain(changed) {
        if catch_unwind(|| property(&bytes)).is_err() {
            panic!(
                "{name}, seed {seed}: {:?}",
                bytes.escape_ascii().to_string()
            );
        }
    }
}
