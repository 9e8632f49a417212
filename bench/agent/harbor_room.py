"""harbor_room.py - a room as an environment of Harbor: `harbor run -e harbor_room:HarborRoom`.

CERIUM_ROOM_NODE is the node_modules folder whose programs are in its PATH: Codex, in the version
that the agent's settings name, so that it installs none."""

import asyncio
import os

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

from room import Room


class HarborRoom(BaseEnvironment):
    @staticmethod
    def type():
        return "room"

    @property
    def capabilities(self):
        return EnvironmentCapabilities()

    def _validate_definition(self):
        if not (self.environment_dir / "Dockerfile").exists():
            raise FileNotFoundError(self.environment_dir / "Dockerfile")

    async def start(self, force_build):
        self.room = Room(self.trial_paths.trial_dir / "room", self.environment_dir.parent,
                         os.environ.get("CERIUM_ROOM_NODE"))
        self.room.start()

    async def stop(self, delete):
        if delete:
            self.room.stop()

    async def upload_file(self, source_path, target_path):
        self.room.put(source_path, target_path)

    async def upload_dir(self, source_dir, target_dir):
        self.room.put(source_dir, target_dir)

    async def download_file(self, source_path, target_path):
        self.room.take(source_path, target_path)

    async def download_dir(self, source_dir, target_dir):
        self.room.take(source_dir, target_dir)

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None):
        status, out = await asyncio.to_thread(self.room.run, command, cwd,
                                              self._merge_env(env), timeout_sec or 3600)
        return ExecResult(stdout=out, stderr="", return_code=status)
