//! What neither the parser nor the help knows: the environment, and which pages are related.

/// A variable of the environment.
pub struct Variable {
    pub name: &'static str,
    /// The verbs that read it.
    pub verbs: &'static [&'static str],
    pub meaning: &'static str,
}

/// The variables that fullbore reads.
pub const ENVIRONMENT: &[Variable] = &[
    Variable {
        name: "FULLBORE_PLAIN",
        verbs: &["buffer", "copy", "meter", "tee"],
        meaning: "If it is 1, bytes are moved by read(2) and write(2) only, also with --by-reference.",
    },
    Variable {
        name: "NO_COLOR",
        verbs: &["bench", "doctor", "top"],
        meaning: "If it is set to a value that is not empty, nothing is coloured.",
    },
    Variable {
        name: "PATH",
        verbs: &["run", "explain", "bench"],
        meaning: "The directories in which programs are looked for.",
    },
    Variable {
        name: "TERM",
        verbs: &["run"],
        meaning: "If it is unset, empty or 'dumb', the cursor of the terminal cannot be moved, and --live \
                  shows nothing until the pipeline has ended.",
    },
    Variable {
        name: "TMPDIR",
        verbs: &["bench", "doctor", "explain"],
        meaning: "The directory of temporary files. The default is /tmp.",
    },
    Variable {
        name: "TMPDIR",
        verbs: &["buffer"],
        meaning: "The directory of the temporary file of -t. The default is /var/tmp.",
    },
    Variable {
        name: "XDG_RUNTIME_DIR",
        verbs: &["tune", "top"],
        meaning: "The subdirectory fullbore of this directory holds what 'fullbore tune --revert' needs to \
                  restore a pipe. If the variable is unset, or if other users can write there, \
                  /tmp/fullbore-UID holds it.",
    },
];

/// Pages that a reader of a verb's page may want next.
const RELATED: &[(&str, &[&str])] = &[
    (
        "bench",
        &[
            "fullbore-explain(1)",
            "fullbore-doctor(1)",
            "fullbore-write(1)",
        ],
    ),
    (
        "buffer",
        &["fullbore-meter(1)", "fullbore-tee(1)", "mbuffer(1)"],
    ),
    ("completions", &["bash(1)", "fish(1)", "zsh(1)"]),
    (
        "copy",
        &[
            "fullbore-tee(1)",
            "fullbore-meter(1)",
            "cat(1)",
            "splice(2)",
        ],
    ),
    ("doctor", &["fullbore-bench(1)", "pipe(7)", "sysctl(8)"]),
    (
        "explain",
        &["fullbore-bench(1)", "fullbore-run(1)", "perf-record(1)"],
    ),
    ("man", &["man(1)", "manpath(1)"]),
    ("meter", &["fullbore-copy(1)", "fullbore-top(1)", "pv(1)"]),
    (
        "read",
        &["fullbore-write(1)", "fullbore-bench(1)", "splice(2)"],
    ),
    (
        "run",
        &["fullbore-top(1)", "fullbore-tune(1)", "bash(1)", "pipe(7)"],
    ),
    ("tee", &["fullbore-copy(1)", "tee(1)", "tee(2)"]),
    (
        "top",
        &["fullbore-run(1)", "fullbore-tune(1)", "lsof(8)", "pipe(7)"],
    ),
    (
        "tune",
        &["fullbore-top(1)", "fullbore-run(1)", "fcntl(2)", "pipe(7)"],
    ),
    (
        "write",
        &["fullbore-read(1)", "fullbore-bench(1)", "vmsplice(2)"],
    ),
];

/// Returns the variables that a verb reads.
pub fn environment(verb: &str) -> impl Iterator<Item = &'static Variable> {
    ENVIRONMENT
        .iter()
        .filter(move |variable| variable.verbs.contains(&verb))
}

/// Returns the pages that are related to a verb's.
pub fn related(verb: &str) -> impl Iterator<Item = &'static str> {
    RELATED
        .iter()
        .filter(move |(name, _)| *name == verb)
        .flat_map(|(_, pages)| pages.iter().copied())
}
