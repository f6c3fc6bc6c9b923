#!/usr/bin/env node
// Power loss is tested by what the system was asked to do.
import { ensurePrograms } from './debian-programs.mjs';

ensurePrograms({
  user: 'the tests of power loss',
  programs: ['strace'],
  packages: ['strace'],
  megabytes: 2,
});
