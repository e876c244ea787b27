//! What can stand in place of a word of a command line.

/// What can stand in place of a word.
pub enum Answer {
    /// One of these.
    Words(Vec<Word>),
    /// A file, which the shell completes.
    Files,
    /// A directory, which the shell completes.
    Directories,
    /// The name of a program, which the shell completes.
    Commands,
}

/// A word that can stand there.
pub struct Word {
    pub text: String,
    /// What it means, in one line; may be empty.
    pub meaning: String,
}
