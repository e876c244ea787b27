//! Lists the rules for each kind of refusal, in tables of which the first rule that matches is used. Rules
//! for one technique come before those for any call.

use super::circumstances::Circumstances;
use super::rules;
use fullbore_results::doctor::{Refusal, RefusalCause};

type Rule = fn(&Refusal, &Circumstances) -> Option<RefusalCause>;

/// Rules for single trials, in order; a trial can have several.
const SPECIAL: &[(&str, Rule)] = &[
    ("roomy_pipe", rules::pipe_max_size),
    ("roomy_pipe", rules::user_pages),
    ("huge_pages", rules::huge_pages_off),
    ("huge_pages", rules::no_huge_page_free),
];

/// Rules for any trial.
const GENERAL: &[Rule] = &[
    rules::killed_by_a_filter,
    rules::gvisor,
    rules::too_many_files,
    rules::filter,
    rules::kernel_without,
    rules::denied,
];

/// Returns why `trial` was refused.
pub fn of(trial: &str, refusal: &Refusal, around: &Circumstances) -> RefusalCause {
    let special = SPECIAL
        .iter()
        .filter(|(name, _)| *name == trial)
        .find_map(|(_, rule)| rule(refusal, around));
    special
        .or_else(|| GENERAL.iter().find_map(|rule| rule(refusal, around)))
        .unwrap_or_else(|| RefusalCause::for_good("the cause is not known"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullbore_host::machine::Capabilities;
    use rustix::io::Errno;

    fn refused(operation: &str, errno: Errno) -> Refusal {
        Refusal {
            operation: operation.into(),
            errno: Some(errno.raw_os_error()),
            ..Refusal::default()
        }
    }

    fn nobody() -> Circumstances {
        Circumstances {
            pipe_max_size: Some(1 << 20),
            user_pages_soft: Some(16384),
            user_pages_hard: Some(0),
            huge_pages: Some("madvise".into()),
            ..Circumstances::default()
        }
    }

    fn filtered() -> Circumstances {
        let mut around = nobody();
        around.conditions.seccomp = 2;
        around
    }

    #[test]
    fn a_filter_is_named_where_one_is_in_force_and_the_kernel_otherwise() {
        for errno in [Errno::PERM, Errno::NOSYS] {
            let cause = of("vmsplice", &refused("vmsplice", errno), &filtered());
            assert!(cause.why.contains("seccomp"), "{cause:?}");
            assert!(cause.remedy.unwrap().contains("allow vmsplice"));
        }
        let cause = of("vmsplice", &refused("vmsplice", Errno::NOSYS), &nobody());
        assert!(
            cause.why.contains("this kernel does not support it"),
            "{cause:?}"
        );
        let mut gvisor = filtered();
        gvisor.conditions.gvisor = true;
        let cause = of("vmsplice", &refused("vmsplice", Errno::NOSYS), &gvisor);
        assert!(cause.why.contains("gVisor"), "{cause:?}");
    }

    #[test]
    fn a_small_pipe_is_the_fault_of_the_limit_that_made_it_so() {
        let refusal = refused("F_SETPIPE_SZ", Errno::PERM);
        let small = Circumstances {
            pipe_max_size: Some(65536),
            ..nobody()
        };
        assert!(
            of("roomy_pipe", &refusal, &small)
                .why
                .contains("fs.pipe-max-size is 65536")
        );
        let full = Circumstances {
            pipe_pages_in_use: 16384,
            ..filtered()
        };
        let cause = of("roomy_pipe", &refusal, &full);
        assert!(
            cause
                .why
                .contains("fs.pipe-user-pages-soft allows 16384 pages"),
            "{cause:?}"
        );
        assert!(
            cause
                .remedy
                .unwrap()
                .ends_with("fs.pipe-user-pages-soft=32768")
        );
        // The limit is not reached, so the filter is the cause.
        assert!(
            of("roomy_pipe", &refusal, &filtered())
                .why
                .contains("seccomp")
        );
        let root = Circumstances {
            capabilities: Capabilities {
                sys_admin: true,
                ..Capabilities::default()
            },
            ..full
        };
        assert!(of("roomy_pipe", &refusal, &root).why.contains("seccomp"));
    }

    #[test]
    fn every_special_rule_is_of_a_trial() {
        for (name, _) in SPECIAL {
            let known = fullbore_lab::trials::TRIALS
                .iter()
                .any(|trial| trial.name == *name);
            assert!(known, "{name}");
        }
    }

    #[test]
    fn huge_pages_that_are_off_and_those_that_are_used_up_are_told_apart() {
        let refusal = Refusal {
            said: "the kernel gave 0 B on huge pages and 4 MiB on base pages".into(),
            ..Refusal::default()
        };
        let off = Circumstances {
            huge_pages: Some("never".into()),
            ..nobody()
        };
        assert!(
            of("huge_pages", &refusal, &off)
                .remedy
                .unwrap()
                .contains("echo madvise")
        );
        assert!(
            of("huge_pages", &refusal, &nobody())
                .why
                .contains("fragmented")
        );
        let mut disabled = nobody();
        disabled.conditions.huge_pages_disabled = true;
        assert!(
            of("huge_pages", &refusal, &disabled)
                .why
                .contains("PR_SET_THP_DISABLE")
        );
    }
}
