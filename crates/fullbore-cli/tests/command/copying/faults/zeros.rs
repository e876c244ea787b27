//! Tests that a 0 from splice(2) or tee(2) is not treated as the end: it may also be caused by a file
//! system that cannot accept bytes at the moment, or by a pipe that another reader has emptied. Only
//! read(2) shows the end.

use super::*;

const JOBS: &[Job] = &[
    ("copy -o OUT", Pipe, Nothing),
    ("copy", Pipe, ToFile),
    ("copy", Pipe, Pipe),
    ("copy IN", Nothing, Pipe),
    ("copy IN", Nothing, ToFile),
    ("tee OUT", Pipe, Pipe),
    ("tee OUT", ToFile, Pipe),
    ("meter -q", Pipe, ToFile),
    ("meter -q IN", Nothing, Pipe),
];

#[test]
fn a_zero_from_splice_or_tee_is_not_taken_for_the_end() {
    if !has_strace() {
        return;
    }
    let files = Files::new(bytes(3_000_001));
    for &job in JOBS {
        for by in guarantees(job.0) {
            for call in ["splice", "tee"] {
                for nth in ["1", "2", "3"] {
                    let trace = format!("trace={call}");
                    let inject = format!("inject={call}:retval=0:when={nth}");
                    let options = ["-f", "-qqq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
                    let (output, outputs) =
                        files.run(job, by, |command| behind("strace", &options, &command));
                    let what = format!("{job:?} {by}, {call} {nth}");
                    assert_everything(&what, &output, &outputs, &files.bytes);
                }
            }
        }
    }
}
