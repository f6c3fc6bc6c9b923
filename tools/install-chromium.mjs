#!/usr/bin/env node
// The SDK is tested in a real browser, which comes from the distribution.
import { ensurePrograms } from './debian-programs.mjs';

ensurePrograms({
  user: 'the tests of the SDK in a browser',
  programs: ['chromium'],
  packages: ['chromium'],
  megabytes: 120,
});
