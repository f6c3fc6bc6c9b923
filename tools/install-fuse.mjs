#!/usr/bin/env node
// Mounts are unmounted as a person does it, and made by its program where nobody is root.
import { ensurePrograms } from './debian-programs.mjs';

ensurePrograms({
  user: 'the tests of mounts',
  programs: ['fusermount3'],
  packages: ['fuse3'],
  megabytes: 1,
});
