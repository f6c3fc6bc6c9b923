#!/usr/bin/env node
// The dashboard and the alert rules are judged by Prometheus' own tool; no Prometheus has to run.
import { ensurePrograms } from './debian-programs.mjs';

ensurePrograms({
  user: 'the tests of metrics and alert rules',
  programs: ['promtool'],
  packages: ['prometheus'],
  megabytes: 20,
});
