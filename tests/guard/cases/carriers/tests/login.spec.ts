import { exec } from 'child_process';
export const run = (d: string) => exec('ls ' + d);
