//! Certificates for tests.

use std::path::Path;

use rcgen::{CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, SanType};

/// Who vouches for servers and clients.
pub struct Authority(pub CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "those who vouch");
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// `NAME.pem` and `NAME.key` for `name`, on 127.0.0.1 too.
    pub fn certify(&self, directory: &Path, name: &str, purpose: ExtendedKeyUsagePurpose) {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.subject_alt_names.push(SanType::IpAddress("127.0.0.1".parse().unwrap()));
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![purpose];
        self.write(directory, name, &params);
    }

    /// `NAME.pem` and `NAME.key` for localhost, valid from 2020 until `year` begins.
    pub fn certify_until(&self, directory: &Path, name: &str, year: i32) {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        self.write(directory, name, &params);
    }

    fn write(&self, directory: &Path, name: &str, params: &CertificateParams) {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        std::fs::write(directory.join(format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(directory.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}
