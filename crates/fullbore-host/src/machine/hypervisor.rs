//! The hypervisor that the machine runs on, if it is a virtual one.

use super::files::{Root, field};

/// Returns the hypervisor below this kernel and the product that it is part of, such as `KVM
/// (Amazon EC2 m7a.large)`; `None` where there is no sign of one.
///
/// DMI names the product of a physical machine as well, so it counts only where something else
/// says that there is a hypervisor.
pub fn hypervisor(root: &Root, cpuid: Option<&str>) -> Option<String> {
    let name = cpuid
        .map(str::to_owned)
        .or_else(|| root.text("sys/hypervisor/type"))
        .or_else(|| root.text("proc/device-tree/hypervisor/compatible"));
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
    let names: Vec<String> = ["sys_vendor", "product_name"]
        .iter()
        .filter_map(|file| root.text(format!("sys/class/dmi/id/{file}")))
        .collect();
    (!names.is_empty()).then(|| names.join(" "))
}

/// The hypervisor as it names itself to its guests (CPUID leaf 0x4000_0000).
#[cfg(target_arch = "x86_64")]
pub fn hypervisor_of_cpuid() -> Option<&'static str> {
    use raw_cpuid::{CpuId, Hypervisor};
    match CpuId::new().get_hypervisor_info()?.identify() {
        Hypervisor::Xen => Some("Xen"),
        Hypervisor::VMware => Some("VMware"),
        Hypervisor::HyperV => Some("Hyper-V"),
        Hypervisor::KVM => Some("KVM"),
        Hypervisor::QEMU => Some("QEMU without an accelerator"),
        Hypervisor::Bhyve => Some("bhyve"),
        Hypervisor::QNX => Some("QNX"),
        Hypervisor::ACRN => Some("ACRN"),
        Hypervisor::Unknown(..) => None,
    }
}

/// Other architectures have no instruction for it.
#[cfg(not(target_arch = "x86_64"))]
pub fn hypervisor_of_cpuid() -> Option<&'static str> {
    None
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
        let silent = Fixture::new(&[]);
        let named = hypervisor(&silent.root(), Some("KVM"));
        assert_eq!(named.as_deref(), Some("KVM"));

        let cloud = Fixture::new(&[("sys/class/dmi/id/sys_vendor", "Amazon EC2")]);
        let named = hypervisor(&cloud.root(), Some("KVM"));
        assert_eq!(named.as_deref(), Some("KVM (Amazon EC2)"));
        assert_eq!(hypervisor(&cloud.root(), None), None);

        let flag_only = Fixture::new(&[("proc/cpuinfo", "flags : fpu hypervisor\n")]);
        let named = hypervisor(&flag_only.root(), None);
        assert_eq!(named.as_deref(), Some("unknown hypervisor"));
    }
}
