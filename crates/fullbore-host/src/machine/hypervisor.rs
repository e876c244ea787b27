//! The hypervisor that the machine runs on, if it is a virtual one.

use super::files::{Root, field};

/// Returns the hypervisor below this kernel and the product that it is part of, as far as either is known;
/// `None` where there is no sign of one.
///
/// DMI names the product of a physical machine as well, so it counts only where something else
/// says that there is a hypervisor.
pub fn hypervisor(root: &Root) -> Option<String> {
    let of_tree = || root.text("proc/device-tree/hypervisor/compatible");
    let name = root.text("sys/hypervisor/type").or_else(of_tree);
    if name.is_none() && !has_hypervisor_flag(root) {
        return None;
    }
    match (name, dmi_product(root)) {
        (Some(name), Some(product)) => Some(format!("{name} ({product})")),
        (Some(one), None) | (None, Some(one)) => Some(one),
        (None, None) => Some("unknown hypervisor".to_owned()),
    }
}

/// Returns whether `/proc/cpuinfo` shows the flag that a CPU has only under a hypervisor.
fn has_hypervisor_flag(root: &Root) -> bool {
    let cpuinfo = root.text("proc/cpuinfo").unwrap_or_default();
    field(&cpuinfo, "flags")
        .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// Returns the vendor and the product that the firmware names.
fn dmi_product(root: &Root) -> Option<String> {
    let names =
        ["sys_vendor", "product_name"].map(|file| root.text(format!("sys/class/dmi/id/{file}")));
    let names: Vec<String> = names.into_iter().flatten().collect();
    (!names.is_empty()).then(|| names.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Fixture;

    #[test]
    fn a_bare_machine_is_not_taken_for_its_dmi_product() {
        let fixture = Fixture::new(&[
            ("proc/cpuinfo", "processor : 0\nflags : fpu vme\n"),
            ("sys/class/dmi/id/sys_vendor", "LENOVO"),
        ]);
        assert_eq!(fixture.machine().hypervisor, None);
    }

    #[test]
    fn the_hypervisor_is_named_with_its_product_as_far_as_either_is_known() {
        let xen = ("sys/hypervisor/type", "xen");
        let named = hypervisor(&Fixture::new(&[xen]).root());
        assert_eq!(named.as_deref(), Some("xen"));

        let vendor = ("sys/class/dmi/id/sys_vendor", "Amazon EC2");
        let named = hypervisor(&Fixture::new(&[xen, vendor]).root());
        assert_eq!(named.as_deref(), Some("xen (Amazon EC2)"));
        assert_eq!(hypervisor(&Fixture::new(&[vendor]).root()), None);

        let flag_only = Fixture::new(&[("proc/cpuinfo", "flags : fpu hypervisor\n")]);
        let named = hypervisor(&flag_only.root());
        assert_eq!(named.as_deref(), Some("unknown hypervisor"));
    }
}
