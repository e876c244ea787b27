//! Tests of the judgement.

use std::collections::BTreeMap;

use super::*;
use crate::verdict::numbers::{Bytes, Certainty, PipeNumbers, Shares};

/// A stage as percentages of the time: it ran, waited for a CPU, for input, for output, for a
/// cause, and kept others waiting.
type Row = (f64, f64, f64, f64, Option<(Cause, f64)>, f64);

/// Returns the numbers from 200 samples in ten seconds; each pipe is given by the percentages of
/// the time in which it was empty and full.
fn numbers(stages: &[Row], pipes: &[(f64, f64)], idle: f64) -> Numbers {
    let stage = |(at, &(ran, queued, input, output, cause, blame)): (usize, &Row)| StageNumbers {
        number: at + 1,
        text: ["first", "second", "third", "fourth"][at].to_owned(),
        command: String::new(),
        seconds: 10.0,
        cpu_seconds: ran / 10.0,
        cpus: ran / 100.0,
        time: Shares {
            ran: f64::min(ran / 100.0, 1.0),
            waited_for_cpu: queued / 100.0,
            waited_for_input: input / 100.0,
            waited_for_output: output / 100.0,
            waited_elsewhere: cause.map_or(0.0, |(_, share)| share / 100.0),
        },
        elsewhere: BTreeMap::from_iter(cause.map(|(cause, share)| (cause, share / 100.0))),
        blame: blame / 100.0,
        attribution: Attribution::Clear,
        is_mixed: false,
        exit_code: Some(0),
        signal: None,
        accepted: None,
    };
    let pipe = |(at, &(empty, full)): (usize, &(f64, f64))| PipeNumbers {
        number: at + 1,
        writer: at + 1,
        reader: at + 2,
        capacity: 1 << 20,
        wanted: 1 << 20,
        seconds: 10.0,
        bytes: Bytes {
            bytes: None,
            bytes_are: Certainty::Unknown,
        },
        bytes_per_second: None,
        filled_10: 0.0,
        filled_50: 0.5,
        filled_90: 1.0,
        empty: empty / 100.0,
        full: full / 100.0,
    };
    let stages: Vec<StageNumbers> = stages.iter().enumerate().map(stage).collect();
    let blame: f64 = stages.iter().map(|stage| stage.blame).sum();
    Numbers {
        seconds: 10.0,
        samples: 200,
        effective_samples: 200.0,
        sampling_seconds: 0.05,
        all_wait: 1.0 - blame,
        cpus_idle: Some(idle / 100.0),
        cpus_offered: None,
        stages,
        pipes: pipes.iter().enumerate().map(pipe).collect(),
    }
}

fn words(stages: &[Row], pipes: &[(f64, f64)], idle: f64) -> String {
    Verdict::of(&numbers(stages, pipes, idle)).words
}

/// CPUs that other programs use are none that the pipeline has too few of.
#[test]
fn too_few_cpus_are_those_that_the_pipeline_used_itself() {
    let words = |ran: f64| {
        let row = |queued| (ran, queued, 0.0, 100.0 - ran - queued, None, 10.0);
        let mut numbers = numbers(&[row(50.0), row(50.0)], &[(10.0, 10.0)], 0.0);
        numbers.cpus_offered = Some(2.0);
        let verdict = Verdict::of(&numbers);
        assert_eq!(verdict.kind, VerdictKind::Cpus, "{}", verdict.words);
        assert!(verdict.next.is_some());
        verdict.words
    };
    // Two stages that each ran 22% of ten seconds, on two CPUs that were never idle.
    let others = "bottleneck: other programs (sure): they used 1.6 of 2 CPUs, and this pipeline 0.4: stage 1 waited";
    assert!(words(22.0).starts_with(others), "{}", words(22.0));
    let own = words(50.0);
    assert!(
        own.starts_with("bottleneck: too few CPUs (sure): "),
        "{own}"
    );
}

#[test]
fn under_a_verdict_stands_what_to_type_for_that_program() {
    for (command, cause, expected) in [
        (
            "gzip -9",
            None,
            Some("'fullbore parallel -- gzip -9' runs it on all CPUs, of which 1.0 were idle: "),
        ),
        (
            "LC_ALL=C grep 'a b'",
            None,
            Some("'LC_ALL=C fullbore parallel --accept 1 -- grep 'a b'' runs it"),
        ),
        ("grep -c x", None, Some("'LC_ALL=C grep' matches")),
        ("LC_ALL=C sort", None, Some("'LC_ALL=C sort --parallel")),
        (
            "mine",
            None,
            Some(
                "'fullbore parallel' runs it on all CPUs, of which 1.0 were idle, if it treats every line alone; or 'perf record",
            ),
        ),
        (
            "grep 4711",
            None,
            Some("'fullbore parallel --accept 1 -- grep 4711' runs it"),
        ),
        ("ssh host cat", Some(Cause::Network), Some("'ss -ti'")),
        ("dd", Some(Cause::Disk), Some("'iostat")),
        ("sleep 1", Some(Cause::Timer), Some("it sleeps by itself")),
        ("cat", Some(Cause::Terminal), None),
    ] {
        let ran = if cause.is_some() { 2.0 } else { 98.0 };
        let slow = (ran, 0.0, 0.0, 0.0, cause.map(|cause| (cause, 98.0)), 97.0);
        let mut numbers = numbers(
            &[slow, (2.0, 0.0, 98.0, 0.0, None, 0.0)],
            &[(98.0, 0.0)],
            50.0,
        );
        numbers.cpus_offered = Some(2.0);
        numbers.stages[0].text = command.to_owned();
        numbers.stages[0].command = command.to_owned();
        let verdict = Verdict::of(&numbers);
        assert_eq!(verdict.slow_stage(), Some(1), "{}", verdict.words);
        let next = verdict.next.as_deref();
        let is_it = |next: &str| expected.is_some_and(|expected| next.starts_with(expected));
        assert_eq!(
            next.is_some_and(is_it),
            expected.is_some(),
            "{command}: {next:?}"
        );
        // Of a process whose words cannot be read, the name is known.
        numbers.stages[0].text = format!("{command} 4711");
        numbers.stages[0].command.clear();
        let next = Verdict::of(&numbers).next.unwrap_or_default();
        assert!(!next.contains("fullbore parallel -"), "{next}");
    }
}

#[test]
#[rustfmt::skip]
fn a_stage_that_the_others_wait_for_is_named_with_what_bounds_it() {
    let timer = |share| Some((Cause::Timer, share));
    for (stages, pipes, idle, expected) in [
        // The stage in the middle computes.
        (&[(10., 1., 0., 89., None, 1.), (98., 1., 1., 0., None, 96.), (4., 0., 96., 0., None, 0.)][..],
         &[(0., 96.), (91., 0.)][..], 45.,
         "bottleneck: stage 2, second (sure), limited by the CPU: the others waited for it 96% of the time, the pipe before it was full 96%, the pipe after it empty 91%, and it ran 98% of the time"),
        // The slow stage has several threads.
        (&[(10., 1., 0., 89., None, 1.), (340., 0., 1., 0., None, 96.), (4., 0., 96., 0., None, 0.)],
         &[(0., 96.), (91., 0.)], 5.,
         "bottleneck: stage 2, second (sure), limited by the CPU: the others waited for it 96% of the time, the pipe before it was full 96%, the pipe after it empty 91%, and it kept 3.4 CPUs busy"),
        // The source waits for something else, and then the sink does.
        (&[(2., 0., 0., 0., Some((Cause::Disk, 97.)), 97.), (4., 0., 95., 0., None, 2.)], &[(96., 0.)], 90.,
         "bottleneck: stage 1, first (sure), limited by a disk or device: the others waited for it 97% of the time, the pipe after it empty 96%, and it ran 2% of the time, waited for a disk or device 97%"),
        (&[(2., 0., 0., 97., None, 2.), (4., 0., 0., 0., Some((Cause::Network, 95.)), 97.)], &[(0., 99.)], 90.,
         "bottleneck: stage 2, second (sure), limited by a socket: the others waited for it 97% of the time, the pipe before it was full 99%, and it ran 4% of the time, waited for a socket 95%"),
        // The stage is slow only for most of the time.
        (&[(30., 0., 0., 70., None, 20.), (75., 0., 25., 0., None, 70.)], &[(15., 65.)], 45.,
         "bottleneck: stage 2, second (likely), limited by the CPU: the others waited for it 70% of the time, the pipe before it was full 65%, and it ran 75% of the time"),
        // The pipe before it contradicts.
        (&[(60., 0., 0., 3., None, 10.), (95., 0., 3., 0., None, 85.)], &[(80., 2.)], 45.,
         "bottleneck: stage 2, second (likely), limited by the CPU: the others waited for it 85% of the time, the pipe before it was full 2%, and it ran 95% of the time"),
        // It waits for a CPU more than it runs.
        (&[(30., 2., 0., 68., None, 3.), (40., 55., 5., 0., None, 90.)], &[(2., 90.)], 1.,
         "bottleneck: stage 2, second (sure), waiting for a free CPU: the others waited for \
          it 90% of the time, the pipe before it was full 90%, and it ran 40% of the time, \
         waited for a CPU 55%"),
        // A stage that spins is no rival, but it may not be spinning.
        (&[(2., 0., 0., 0., timer(97.), 97.), (100., 0., 0., 0., None, 3.)], &[(97., 0.)], 45.,
         "bottleneck: stage 1, first (likely), limited by a timer: the others waited for it 97% of the time, the pipe after it empty 97%, and it ran 2% of the time, waited for a timer 97%"),
    ] {
        assert_eq!(words(stages, pipes, idle), expected);
    }
}

#[test]
#[rustfmt::skip]
fn nobody_is_named_where_nobody_stands_out() {
    for (stages, pipes, idle, expected) in [
        (&[(97., 1., 0., 2., None, 49.), (96., 2., 2., 0., None, 49.)][..], &[(20., 25.)][..], 0.,
         "bottleneck: stage 1, first and stage 2, second together (likely), which are about equally slow: stage 1 worked 97%, stage 2 worked 96% of the time"),
        // The stage before it is always a little behind.
        (&[(97., 1., 0., 2., None, 90.), (92., 2., 6., 0., None, 8.)], &[(90., 0.)], 0.,
         "bottleneck: stage 1, first and stage 2, second together (likely), which are about equally slow: stage 1 worked 97%, stage 2 worked 92% of the time"),
        // The two stages work in step.
        (&[(2., 0., 0., 0., Some((Cause::Timer, 97.)), 97.), (2., 0., 0., 0., Some((Cause::Timer, 96.)), 2.)], &[(98., 0.)], 90.,
         "bottleneck: stage 1, first and stage 2, second together (likely), which are about equally slow: stage 1 worked 99%, stage 2 worked 98% of the time"),
        // The two stages wait for one CPU.
        (&[(35., 65., 0., 0., None, 88.), (35., 61., 4., 0., None, 10.)], &[(16., 0.)], 0.,
         "bottleneck: too few CPUs (sure): stage 1 waited for a CPU 65%, stage 2 waited for a CPU 61%, and CPUs were idle 0% of the time"),
        (&[(50., 0., 0., 50., None, 50.), (50., 0., 50., 0., None, 49.)], &[(49., 50.)], 50.,
         "bottleneck: stage 1, first and stage 2, second at different times (likely): other stages waited for stage 1 50%, other stages waited for stage 2 49% of the time"),
        (&[(33., 60., 0., 7., None, 40.), (33., 50., 7., 10., None, 30.), (33., 40., 27., 0., None, 30.)], &[(20., 40.), (30., 30.)], 1.,
         "bottleneck: too few CPUs (sure): stage 1 waited for a CPU 60%, stage 2 waited for a CPU 50%, stage 3 waited for a CPU 40%, and CPUs were idle 1% of the time"),
        (&[(30., 25., 0., 45., None, 30.), (30., 25., 45., 0., None, 30.)], &[(40., 40.)], 40.,
         "bottleneck: none (likely). The stages alternate, and 90% of the time went into waking each other"),
        (&[(30., 5., 0., 65., None, 38.), (30., 5., 30., 35., None, 18.), (30., 5., 65., 0., None, 15.)], &[(40., 40.), (40., 40.)], 40.,
         "bottleneck: none found (not sure): other stages waited for stage 1 38%, other stages waited for stage 2 18%, other stages waited for stage 3 15% of the time"),
        (&[(80., 5., 0., 0., None, 100.)], &[], 40.,
         "there is only one stage: it ran 80% of the time"),
    ] {
        assert_eq!(words(stages, pipes, idle), expected);
    }
}

#[test]
fn time_in_which_a_stage_waited_for_a_cpu_is_no_work_of_its_own() {
    // Two stages do the same work, and one of them waits for a CPU.
    let stages = [(50., 45., 0., 5., None, 90.), (48., 2., 50., 0., None, 5.)];
    let verdict = Verdict::of(&numbers(&stages, &[(90., 2.)], 20.));
    assert_eq!(
        (verdict.kind, &*verdict.stages),
        (VerdictKind::Shared, &[1, 2][..])
    );
    assert_eq!(
        verdict.words,
        "bottleneck: stage 1, first and stage 2, second together (likely), which are about equally \
         slow: stage 1 worked 50% and waited for a CPU 45%, stage 2 worked 48% of the time"
    );
}

/// Returns pairs of percentages that add up to at most 100.
fn grid(step: usize) -> impl Iterator<Item = (f64, f64)> + Clone {
    let percents = (0..=100).step_by(step);
    percents.clone().flat_map(move |ran| {
        (percents
            .clone()
            .take_while(move |queued| ran + queued <= 100))
        .map(move |queued| (ran as f64, queued as f64))
    })
}

#[test]
fn a_stage_is_surely_the_slow_one_only_with_a_quarter_more_work_than_any_other() {
    let mut sure = 0;
    for (ran, queued) in grid(10) {
        for (other_ran, other_queued) in grid(10) {
            for blame in [60., 75., 90., 100.] {
                for (idle, fill) in [(0., 95.), (10., 50.), (50., 95.), (50., 5.)] {
                    let stages = [
                        (ran, queued, 100. - ran - queued, 0., None, blame),
                        (
                            other_ran,
                            other_queued,
                            100. - other_ran - other_queued,
                            0.,
                            None,
                            (100. - blame) / 2.,
                        ),
                    ];
                    let numbers = numbers(&stages, &[(fill, 100. - fill)], idle);
                    let verdict = Verdict::of(&numbers);
                    if verdict.slow_stage() == Some(1) && verdict.sure == Sureness::Sure {
                        sure += 1;
                        assert!(ran >= 1.25 * other_ran, "{stages:?}: {verdict}");
                    }
                }
            }
        }
    }
    // It must not be right merely because it is never sure.
    assert!(sure > 1000, "{sure}");
}

#[test]
fn a_stage_is_not_surely_the_slow_one_if_few_samples_may_have_missed_the_work_of_another() {
    // `for i in 1 2 3 4; do sleep 0.1; echo x; done | while read x; do sleep 0.1; done`
    let timer = |share| Some((Cause::Timer, share));
    let stages = [
        (0.5, 0.5, 0., 0., timer(99.), 97.),
        (0.2, 0.4, 49.4, 0., timer(50.), 3.),
    ];
    let mut of = numbers(&stages, &[(100., 0.)], 50.);
    of.stages[0].seconds = 8.0;
    for (samples, sure) in [(1000.0, Sureness::Sure), (12.0, Sureness::Likely)] {
        of.effective_samples = samples;
        let verdict = Verdict::of(&of);
        assert_eq!((verdict.stages, verdict.sure), (vec![1], sure));
    }
}

#[test]
fn nobody_is_surely_named_by_figures_that_may_be_of_somebody_else() {
    // `(gzip <image >/dev/null & sleep 12 | wc & wait) 2>&1 >/dev/null | cat`
    let gzip_beside = [(98., 1., 0., 0., None, 100.), (0., 0., 100., 0., None, 0.)];
    let mut of = numbers(&gzip_beside, &[(100., 0.)], 45.);
    assert_eq!(Verdict::of(&of).sure, Sureness::Sure);
    of.stages[0].attribution = Attribution::Likely;
    let verdict = Verdict::of(&of);
    assert_eq!(verdict.slow_stage(), Some(1));
    assert_eq!(verdict.bound_by, Some(Bound::Cpu));
    assert_eq!(verdict.sure, Sureness::Likely);
    of.stages[0].attribution = Attribution::Unclear;
    let verdict = Verdict::of(&of);
    assert_eq!(verdict.slow_stage(), Some(1));
    assert_eq!(verdict.bound_by, Some(Bound::Cause(Cause::Unknown)));
    assert_eq!(verdict.sure, Sureness::NotSure);
    assert_eq!(
        verdict.words,
        "bottleneck: stage 1, first (not sure): the others waited for it 100% of the time, the pipe \
         after it empty 100%, but several processes have its pipe open, and it is unknown for \
         which of them they waited"
    );
    // A stage that may be unrelated to the pipe makes no other stage less slow, and is not slow
    // together with it.
    let asleep = [
        (88., 1., 0., 10., None, 3.),
        (2., 0., 0., 0., Some((Cause::Timer, 97.)), 97.),
    ];
    let mut of = numbers(&asleep, &[(0., 99.)], 45.);
    assert_eq!(Verdict::of(&of).stages, [1, 2]);
    of.stages[0].attribution = Attribution::Unclear;
    let verdict = Verdict::of(&of);
    assert_eq!(verdict.slow_stage(), Some(2));
    assert_eq!(verdict.bound_by, Some(Bound::Cause(Cause::Timer)));
    assert_eq!(verdict.sure, Sureness::Likely);
    // The pipeline is not short of CPUs because that stage is.
    let queues = [(35., 65., 0., 0., None, 88.), (35., 61., 4., 0., None, 10.)];
    let mut of = numbers(&queues, &[(16., 0.)], 0.);
    assert_eq!(Verdict::of(&of).kind, VerdictKind::Cpus);
    of.stages[0].attribution = Attribution::Unclear;
    of.stages[1].attribution = Attribution::Unclear;
    assert_ne!(Verdict::of(&of).sure, Sureness::Sure);
}

#[test]
fn nobody_is_surely_named_while_threads_wait_for_several_things() {
    let timer = |share| Some((Cause::Timer, share));
    let stages = [
        (2., 0., 0., 0., timer(97.), 97.),
        (4., 0., 95., 0., None, 2.),
    ];
    let of = numbers(&stages, &[(96., 0.)], 90.);
    assert_eq!(Verdict::of(&of).sure, Sureness::Sure);
    // The thread that waits for the timer may be one of the slow stage that only ticks, and the other
    // stage may wait for something else than its input.
    for stage in 0..2 {
        let mut mixed = of.clone();
        mixed.stages[stage].is_mixed = true;
        let verdict = Verdict::of(&mixed);
        assert_eq!((verdict.stages, verdict.sure), (vec![1], Sureness::Likely));
    }
}

#[test]
fn a_few_samples_are_too_few() {
    let mut few = numbers(
        &[(98., 0., 0., 2., None, 98.), (2., 0., 98., 0., None, 2.)],
        &[(98., 0.)],
        50.,
    );
    few.samples = SAMPLES - 1;
    few.seconds = 0.03;
    let verdict = Verdict::of(&few);
    assert_eq!(verdict.kind, VerdictKind::TooShort);
    assert_eq!(
        verdict.words,
        "too short to tell which stage is slow: 14 samples in 0.030 s"
    );
    few.samples = SAMPLES;
    assert_eq!(Verdict::of(&few).stages, [1]);
}
