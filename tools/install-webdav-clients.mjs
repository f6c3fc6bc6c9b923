#!/usr/bin/env node
// Programs that speak WebDAV, and restic, which keeps its repository behind one of them.
import { ensurePrograms } from './debian-programs.mjs';

ensurePrograms({
  user: 'the tests of the WebDAV gateway',
  programs: ['litmus', 'rclone', 'restic', 'cadaver', 'mount.davfs'],
  packages: ['litmus', 'rclone', 'restic', 'cadaver', 'davfs2'],
  megabytes: 30,
});
