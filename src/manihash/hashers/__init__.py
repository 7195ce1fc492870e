"""Hashers, one file per method, and the recipes that build them by name."""

from manihash.hashers._hasher import Hasher
from manihash.hashers.agh import AGH
from manihash.hashers.bre import BRE
from manihash.hashers.bridged import BridgedHasher
from manihash.hashers.cgh import CGH
from manihash.hashers.collapse import CollapsedCodesWarning
from manihash.hashers.e2lsh import E2LSH
from manihash.hashers.hybrid import Hybrid
from manihash.hashers.imh import IMH
from manihash.hashers.itq import ITQ
from manihash.hashers.klsh import KLSH
from manihash.hashers.ksh import KSH
from manihash.hashers.ldahash import LDAHash
from manihash.hashers.lsh import LSH
from manihash.hashers.mahalanobis import MahalanobisLSH
from manihash.hashers.pcah import PCAH
from manihash.hashers.product import ProductQuantizer
from manihash.hashers.recipes import recipe, recipe_names, register
from manihash.hashers.rmmh import RMMH
from manihash.hashers.sh import SH
from manihash.hashers.sign import SignQuantizer
from manihash.hashers.sklsh import SKLSH
from manihash.hashers.sph import SpH
from manihash.hashers.ssh import SSH
from manihash.hashers.sth import STH
from manihash.hashers.supervised_imh import SupervisedIMH

__all__ = [
    "AGH",
    "BRE",
    "CGH",
    "E2LSH",
    "IMH",
    "ITQ",
    "KLSH",
    "KSH",
    "LSH",
    "PCAH",
    "RMMH",
    "SH",
    "SKLSH",
    "SSH",
    "STH",
    "BridgedHasher",
    "CollapsedCodesWarning",
    "Hasher",
    "Hybrid",
    "LDAHash",
    "MahalanobisLSH",
    "ProductQuantizer",
    "SignQuantizer",
    "SpH",
    "SupervisedIMH",
    "recipe",
    "recipe_names",
    "register",
]
