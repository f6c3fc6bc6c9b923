#!/usr/bin/env node
// The model of the protocol between rows and bytes is checked by Spin, whose checkers a C compiler makes.
import { ensurePrograms } from './debian-programs.mjs';

ensurePrograms({
  user: 'the tests of the model of rows and bytes',
  programs: ['spin', 'gcc'],
  packages: ['spin', 'gcc', 'libc6-dev'],
  megabytes: 45,
});
