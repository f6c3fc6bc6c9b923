#!/usr/bin/env node
// The tests run against a real S3, Ceph's object gateway, which comes from the distribution.
import { ensurePrograms } from './debian-programs.mjs';

ensurePrograms({
  user: "the tests of the scale-out engine (they run on Ceph's object gateway)",
  programs: ['ceph-mon', 'ceph-osd', 'radosgw', 'radosgw-admin', 'ceph', 'monmaptool'],
  packages: ['radosgw', 'ceph-mon', 'ceph-osd', 'ceph-common'],
  megabytes: 60,
});
