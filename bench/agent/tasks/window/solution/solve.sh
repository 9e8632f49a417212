#!/bin/bash
set -e
cd /app
sed -i 's/len(self.samples) >= self.width/len(self.samples) > self.width/' window.py
