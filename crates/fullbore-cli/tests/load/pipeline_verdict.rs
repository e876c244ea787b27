//! Tests how often the verdict on a pipeline names the slow stage, and how often another one.

use crate::common::verdicts::judged;

/// How often it finds the slow stage depends on the other load of this machine.
#[test]
fn under_load_the_slow_stage_is_named_in_three_of_four_and_a_wrong_one_in_one_of_twenty() {
    if let Some([right, not_sure, wrong, misled]) = judged(1) {
        assert_eq!(misled, 0);
        let all = right + not_sure + wrong;
        assert!(wrong * 20 <= all, "{wrong} wrong of {all}");
        assert!(right * 4 >= all * 3, "only {right} right of {all}");
    }
}
