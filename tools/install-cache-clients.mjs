#!/usr/bin/env node
// Programs that keep things in a cache over HTTP.
import { ensurePrograms } from './debian-programs.mjs';

ensurePrograms({
  user: 'the tests of the cache',
  programs: ['ccache', 'git-lfs'],
  packages: ['ccache', 'git-lfs'],
  megabytes: 12,
});
