//! Devices: the files in `/dev` that programs open.

use crate::abi::Errno;
use crate::descriptor::{Fd, Kind};
use crate::host::Host;

/// A device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    Null,
    Zero,
    Random,
}

impl Device {
    /// The device with an absolute path.
    pub(crate) fn of(path: &[u8]) -> Option<Device> {
        match path {
            b"/dev/null" => Some(Device::Null),
            b"/dev/zero" => Some(Device::Zero),
            b"/dev/random" | b"/dev/urandom" => Some(Device::Random),
            _ => None,
        }
    }
}

impl Host {
    pub(crate) fn open_device(&mut self, device: Device, flags: i32) -> Result<Fd, Errno> {
        self.add_open(Kind::Device(device), flags)
    }

    pub(crate) fn device_read(&mut self, device: Device, bytes: &mut [u8]) -> usize {
        match device {
            Device::Null => return 0,
            Device::Zero => bytes.fill(0),
            Device::Random => self.getrandom(bytes),
        }
        bytes.len()
    }
}
