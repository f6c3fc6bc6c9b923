#!/usr/bin/env node
// The systemd unit is judged by systemd's own tool, which runs without systemd.
import { ensurePrograms } from './debian-programs.mjs';

ensurePrograms({
  user: 'the tests of the systemd unit',
  programs: ['systemd-analyze'],
  packages: ['systemd'],
  megabytes: 4,
});
